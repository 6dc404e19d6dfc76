"""SUBSCRIBE and UNSUBSCRIBE: checks, limits, and the subscriptions in force."""
