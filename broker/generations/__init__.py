"""Generations of memberships: follow, load, adopt, and notify subscribers of a switch."""
