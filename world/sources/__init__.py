"""Reads sources (OpenStreetMap, GeoJSON, Parquet, Delta, Shapefile, GeoPackage) as rows."""
