"""Membership sets: packed, written, copied, read back and counted."""
