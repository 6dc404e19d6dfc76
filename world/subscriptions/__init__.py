"""Subscriptions in files and tables, as tasks read them: parts of arrays."""
