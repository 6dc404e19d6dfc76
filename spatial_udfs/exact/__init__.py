"""The exact resolver: one neighborhood on one world version, in one process."""
