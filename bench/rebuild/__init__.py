"""Rebuilds after a small change beside full ones."""
