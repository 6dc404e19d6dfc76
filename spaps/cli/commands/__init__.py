"""The commands of ``spaps``: one file for each, or for two that are used together."""
