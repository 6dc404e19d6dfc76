"""Imports of Parquet and of OSM extracts by Spark."""
