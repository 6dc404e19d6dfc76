"""An import of GeoParquet by Spark."""
