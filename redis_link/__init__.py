"""Everything that talks to Redis: connections, sets, generations, the registry."""
