"""Memberships of a world version in Delta, written without Spark, and which run wrote them."""
