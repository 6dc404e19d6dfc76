"""What survives a kill of the broker: the core's records in Redis, stored, loaded, repaired."""
