"""Settings and templates as files, found the same way in a clone and in an installed wheel."""
