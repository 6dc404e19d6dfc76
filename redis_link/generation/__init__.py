"""Generations: pushed, verified, switched to, repaired and removed."""
