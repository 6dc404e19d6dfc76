"""The exact resolver beside PostGIS."""
