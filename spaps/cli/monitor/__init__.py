"""Behind ``spaps top``, ``sub`` and ``sessions``: a running broker, looked at."""
