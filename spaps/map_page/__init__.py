"""A neighborhood as one HTML file that opens without a network.

It draws on a canvas, without a map library: see docs/decisions/0002-map-page-of-our-own.md.
"""
