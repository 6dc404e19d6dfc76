"""The MQTT broker with the spatial filter. Never imports Spark."""
