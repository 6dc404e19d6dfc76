"""The client library: MQTT 5 over paho, with what makes messages spatial."""
