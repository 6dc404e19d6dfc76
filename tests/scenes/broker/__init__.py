"""Scenes of the broker: journals, resolvers, logins, and brokers that everyone may use."""
