"""Reads OpenStreetMap extracts: rules choose the elements, and roads are split into segments."""
