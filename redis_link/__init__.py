"""Reaching Redis: by URL (password, TLS, Sentinel, Cluster), or the embedded server."""
