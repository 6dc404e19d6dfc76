"""A broker that changes over to another generation."""
