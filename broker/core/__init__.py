"""The sans-I/O core: bytes, answers and time in; bytes, requests and records out."""
