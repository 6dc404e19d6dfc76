"""Rebuilds: a new world version, what changed, members, the push and the switch. No Spark."""
