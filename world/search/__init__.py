"""Finds entities of a world version by text, category and place, without loading a snapshot."""
