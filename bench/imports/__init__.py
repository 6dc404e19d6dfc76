"""Measures imports."""
