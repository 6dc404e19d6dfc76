"""Convert the core's records to bytes and Redis commands, and back."""
