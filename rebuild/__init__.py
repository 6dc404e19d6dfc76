"""Rebuilds: import, compare, resolve, push, switch and clean up. No Spark."""
