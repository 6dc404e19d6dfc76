"""Connections: clients and routers by URL, and the embedded server."""
