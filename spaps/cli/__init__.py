"""The command line ``spaps``: what its commands share, and the work of the larger ones."""
