"""The commands of ``spaps``: one file for each, or for some that are used together."""
