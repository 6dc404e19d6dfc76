"""The core's records as bytes and commands of Redis, and back."""
