"""Subscriptions of a run: read, taken apart into nodes, and given the world's meaning."""
