"""Reads source files (GeoJSON, GeoParquet, OpenStreetMap) as rows."""
