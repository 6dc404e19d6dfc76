"""Generations: built, verified, switched to, repaired and removed."""
