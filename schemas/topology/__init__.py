"""Relations as sets of DE-9IM matrices: masks, truth on far pairs, satisfiability."""
