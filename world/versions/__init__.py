"""Reads and writes the versions of a world as Delta tables, without Spark."""
