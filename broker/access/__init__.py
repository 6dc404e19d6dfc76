"""Who may connect, and who may read and write which topics."""
