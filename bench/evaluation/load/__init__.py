"""The load generator: a fixed rate, real sockets, changes of subscriptions meanwhile."""
