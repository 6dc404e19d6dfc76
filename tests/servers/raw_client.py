"""A client that sends exactly the bytes it is told to, for what no library would ever send."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

CONNECT, CONNACK, PUBLISH, PUBACK = 0x10, 0x20, 0x30, 0x40
SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 0x82, 0x90, 0xC0, 0xD0, 0xE0


def varint(number: int) -> bytes:
    """A variable byte integer."""
    encoded = bytearray()
    while True:
        number, digit = divmod(number, 128)
        encoded.append(digit | (0x80 if number else 0))
        if not number:
            return bytes(encoded)


def text(value: str | bytes) -> bytes:
    """A string or binary field with its length in front."""
    content = value.encode() if isinstance(value, str) else value
    return len(content).to_bytes(2, "big") + content


def packet(first: int, *parts: bytes) -> bytes:
    """A whole packet."""
    body = b"".join(parts)
    return bytes([first]) + varint(len(body)) + body


def connect_packet(
    client_id: str = "raw",
    *,
    user: str | None = None,
    password: bytes | None = None,
    clean: bool = True,
    keep_alive: int = 60,
    properties: bytes = b"",
    will: tuple[str, bytes] | None = None,
) -> bytes:
    """A CONNECT of MQTT 5."""
    flags = (0x02 if clean else 0) | (0x04 if will else 0)
    flags |= (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    payload = [text(client_id)]
    if will is not None:
        payload += [b"\x00", text(will[0]), text(will[1])]
    payload += [text(given) for given in (user, password) if given is not None]
    head = text("MQTT") + bytes([5, flags]) + keep_alive.to_bytes(2, "big")
    return packet(CONNECT, head, varint(len(properties)), properties, *payload)


def subscribe_packet(topic_filter: str, options: int = 0, packet_id: int = 1) -> bytes:
    """A SUBSCRIBE to one filter."""
    return packet(
        SUBSCRIBE, packet_id.to_bytes(2, "big"), b"\x00", text(topic_filter), bytes([options])
    )


def publish_packet(topic: str, payload: bytes = b"", properties: bytes = b"") -> bytes:
    """A QoS 0 PUBLISH."""
    return packet(PUBLISH, text(topic), varint(len(properties)), properties, payload)


class RawClient:
    """A socket with MQTT's packet borders."""

    def __init__(self, port: int, timeout: float = 30.0, receive_buffer: int | None = None) -> None:
        """With ``receive_buffer`` little is taken from the broker that is not read."""
        self._socket = socket.socket()
        self._socket.settimeout(timeout)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Go away without a word."""
        self._socket.close()

    def wait_at_most(self, seconds: float) -> None:
        """Raise TimeoutError when the broker takes or sends nothing for so long."""
        self._socket.settimeout(seconds)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def connect(self, **options: object) -> bytes:
        """Log in; the body of the CONNACK."""
        self.send(connect_packet(**options))  # type: ignore[arg-type]
        first, body = self.read_packet()
        assert first == CONNACK, hex(first)
        return body

    def read_packet(self) -> tuple[int, bytes]:
        """First byte and body of the next packet; EOFError when the broker has closed."""
        first = self._read(1)[0]
        length = shift = 0
        while True:
            digit = self._read(1)[0]
            length |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                return first, self._read(length)

    def is_closed(self) -> bool:
        """Wait until the broker closes; whatever it says before is left aside."""
        try:
            while self._socket.recv(65_536):
                pass
        except ConnectionResetError:
            pass
        return True

    def ping(self) -> None:
        """See that the broker is there and has worked off everything before."""
        self.send(packet(PINGREQ))
        while self.read_packet()[0] != PINGRESP:
            pass

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                piece = self._socket.recv(size - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise EOFError
            data += piece
        return data
