"""What ``make demo`` shows, one file for each part of it."""
