"""A socket that never blocks: what it does not take is kept and sent later."""

from __future__ import annotations

import socket


class Outbox:
    """Bytes to be sent to one connection, in order."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(0)
        self.socket = connected
        self.rest = bytearray()

    def send(self, data: bytes) -> None:
        """Send the bytes, or keep what the socket does not take now."""
        if self.rest:
            self.rest += data
            return
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self.rest += data[sent:]

    def flush(self) -> None:
        """Send as much as possible of what was kept."""
        try:
            del self.rest[: self.socket.send(self.rest)]
        except BlockingIOError:
            return
