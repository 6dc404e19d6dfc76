"""What an operator sees and checks: log lines, the service manager, the settings."""
