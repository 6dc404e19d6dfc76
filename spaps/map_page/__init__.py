"""A neighborhood as one HTML file that opens without a network.

Our own canvas instead of a map library: see docs/decisions/0002-map-page-of-our-own.md.
"""
