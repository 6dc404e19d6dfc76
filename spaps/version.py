"""The version of both distributions, spaps-mqtt and spaps-server: their builds read it here."""

__version__ = "0.1.0"
