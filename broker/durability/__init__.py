"""State that survives a kill of the broker: store, load and repair the core's records in Redis."""
