"""Makes ``tests.strategies`` importable: some libraries install a package of this name too."""
