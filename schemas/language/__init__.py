"""The language of neighborhoods: descriptor, notation, conditions, categories, limits."""
