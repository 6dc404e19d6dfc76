"""The bulk job beside PostGIS, and the push into Redis."""
