"""The MQTT 5 broker with the spatial filter. Never imports Spark."""
