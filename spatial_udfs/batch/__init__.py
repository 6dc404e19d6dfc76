"""A batch of subscriptions as arrays: taken apart, numbered, and with its meaning in a world."""
