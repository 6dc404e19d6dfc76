"""How long the commands that find things take on a city."""
