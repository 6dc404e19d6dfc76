"""Connections and sessions: input, CONNECT, flow control, expiry, wills."""
