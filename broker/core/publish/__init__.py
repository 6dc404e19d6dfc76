"""PUBLISH: who gets a message, and how it is delivered."""
