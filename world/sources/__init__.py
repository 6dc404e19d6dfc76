"""Source files as rows: GeoJSON, GeoParquet and OpenStreetMap."""
