"""Ways to Redis: clients and connections by URL, and the embedded server."""
