"""Membership rows: written to Delta, and read from it in one unchanging state."""
