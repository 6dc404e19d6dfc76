"""The soak: everything runs, everything breaks, and a checker says who had to get what."""
