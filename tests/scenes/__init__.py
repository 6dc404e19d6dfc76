"""States of a system that tests build and then look at."""
