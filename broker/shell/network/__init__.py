"""Listeners, certificates and connections over TCP, TLS and WebSocket."""
