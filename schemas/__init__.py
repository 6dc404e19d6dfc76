"""The language, and what two rooms share: tables, keys, settings, errors.

Uses the standard library alone, so that every room can import it without shapely, pyarrow, Spark or
Redis.
"""
