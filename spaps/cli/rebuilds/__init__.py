"""Behind ``spaps rebuild`` and ``versions``: schedules and tables."""
