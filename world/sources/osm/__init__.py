"""OpenStreetMap extracts: by rules, roads become segments and other things become entities."""
