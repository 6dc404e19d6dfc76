"""Contracts only: what crosses a border between two rooms, in the standard library alone.

The client library installs with paho and nothing else, so nothing here may import
shapely, pyarrow, Spark or Redis.
"""
