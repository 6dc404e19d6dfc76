"""An import: rows of all sources, checked, projected, and written as one more version."""
