"""The commands of ``spaps``, one file for each."""
