"""The client library: MQTT 5 with paho, peids and neighborhoods."""
