"""What tests and benchmarks share: worlds that are the same for the same seed."""
