"""Writes entities of a world as GeoParquet, GeoJSON or CSV."""
