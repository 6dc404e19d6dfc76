"""Memberships of a world version, written to Delta without Spark, and the runs that wrote them."""
