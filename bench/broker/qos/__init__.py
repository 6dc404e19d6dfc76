"""QoS 1 and 2 beside Mosquitto: rates, latency, many clients."""
