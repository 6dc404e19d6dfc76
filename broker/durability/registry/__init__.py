"""The subscriptions of this broker in the registry of all."""
