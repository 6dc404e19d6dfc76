"""Members on a new world version, out of those on the old one and of what changed."""
