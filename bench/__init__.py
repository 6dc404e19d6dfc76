"""Benchmarks: each writes its figures with the command and the machine that gave them."""
