"""The HTTP pages: figures for Prometheus, and health."""
