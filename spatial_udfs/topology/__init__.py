"""Shapes, matrices and kinds of pairs, and what a condition has to know about a pair."""
