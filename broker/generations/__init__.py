"""Generations of memberships: followed, loaded beside the old one, adopted, notified."""
