"""Retained messages: the store, the search by filter, and what new subscriptions get."""
