"""The registry of subscriptions in Redis."""
