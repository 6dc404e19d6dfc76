"""Related pairs of a world version: built once, kept beside the world."""
