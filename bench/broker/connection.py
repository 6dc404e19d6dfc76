"""Connections of the load generator: raw sockets, packets that were encoded before."""

from __future__ import annotations

import socket
from typing import Final

from bench.broker import scene

CONNACK, SUBACK = 0x20, 0x90
# Nothing that works takes this long.
PATIENCE: Final = 60.0


class LoadError(Exception):
    """The broker did not do what it was asked to."""


class Connection:
    """One client that has connected; it waits for each answer."""

    def __init__(self, port: int, client_id: str, version: int, *, kept: bool = False) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.version = version
        self.ask(scene.connect(client_id, version, kept=kept), CONNACK)

    def ask(self, request: bytes, answer: int) -> bytes:
        """Send a packet and wait for its answer."""
        self.socket.sendall(request)
        first, body = self.read_packet()
        if first != answer:
            raise LoadError(f"packet {answer:#x} was awaited, {first:#x} came")
        return body

    def read_packet(self) -> tuple[int, bytes]:
        """Return the next packet: first byte and body."""
        first = self._read(1)[0]
        length = shift = 0
        while True:
            digit = self._read(1)[0]
            length |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                return first, self._read(length)

    def subscribe(self, topics: list[str], qos: int, *properties: bytes) -> None:
        """Subscribe, and see that every filter was granted."""
        body = self.ask(scene.subscribe(topics, self.version, qos, *properties), SUBACK)
        if any(code > 2 for code in body[-len(topics) :]):
            raise LoadError(f"a subscription was refused: {body[-200:]!r}")

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise LoadError("the broker closed a connection")
            data += piece
        return data


class SendBuffer:
    """A socket that takes what it can, and the rest later."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.settimeout(0)
        self._rest = memoryview(b"")

    def send(self, data: bytes) -> None:
        """Start to send; `flush` sends what is left."""
        self._rest = memoryview(data)
        self.flush()

    def flush(self) -> bool:
        """Send what is left; return True when nothing is."""
        if self._rest:
            try:
                self._rest = self._rest[self._socket.send(self._rest) :]
            except BlockingIOError:
                return False
        return not self._rest
