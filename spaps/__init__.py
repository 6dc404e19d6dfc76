"""The face of spaPS: client library and command line."""
