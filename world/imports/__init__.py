"""Imports: check the rows of all sources, project them, and write them as one more version."""
