"""A generation in Redis, written and read back by executors."""
