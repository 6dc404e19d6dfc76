"""Levels of nodes: members of all nodes of a level at once."""
