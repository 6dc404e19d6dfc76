"""Behind ``spaps resolve``: one neighborhood or many, as tables, GeoJSON and Parquet."""
