"""The broker beside its peers, and parts of it alone."""
