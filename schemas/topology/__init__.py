"""Relations as sets of DE-9IM matrices: masks, far pairs, satisfiability."""
