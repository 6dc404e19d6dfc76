"""MQTT packets made byte by byte, so that wrong ones can be made too."""

from __future__ import annotations

PEID_PROPERTY = 0x26


def varint(number: int) -> bytes:
    encoded = b""
    while True:
        number, low = divmod(number, 128)
        encoded += bytes((low | 0x80 if number else low,))
        if not number:
            return encoded


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return len(raw).to_bytes(2, "big") + raw


def user(name: str | bytes, value: str | bytes) -> bytes:
    return b"\x26" + text(name) + text(value)


def packet(first: int, body: bytes) -> bytes:
    return bytes((first,)) + varint(len(body)) + body


def section(properties: bytes) -> bytes:
    return varint(len(properties)) + properties


def connect(  # noqa: PLR0913 - the fields of the packet
    client_id: str | bytes = "c",
    *,
    flags: int = 0x02,
    properties: bytes = b"",
    rest: bytes = b"",
    keep_alive: int = 0,
    name: bytes = b"MQTT",
    version: int = 5,
    first: int = 0x10,
) -> bytes:
    """``rest`` is what follows the client id: will, user name, password."""
    head = text(name) + bytes((version, flags)) + keep_alive.to_bytes(2, "big")
    return packet(first, head + section(properties) + text(client_id) + rest)


def will(topic: str | bytes, payload: bytes, properties: bytes = b"") -> bytes:
    return section(properties) + text(topic) + text(payload)


def publish(
    topic: str | bytes = "t",
    payload: bytes = b"",
    *,
    properties: bytes = b"",
    qos: int = 0,
    packet_id: int | None = None,
    retain: bool = False,
    duplicate: bool = False,
) -> bytes:
    first = 0x30 | duplicate << 3 | qos << 1 | retain
    identifier = b"" if packet_id is None else packet_id.to_bytes(2, "big")
    return packet(first, text(topic) + identifier + section(properties) + payload)


def subscribe(
    *filters: tuple[str | bytes, int], packet_id: int = 1, properties: bytes = b""
) -> bytes:
    """Filters with their options byte."""
    body = packet_id.to_bytes(2, "big") + section(properties)
    return packet(0x82, body + b"".join(text(name) + bytes((o,)) for name, o in filters))


def unsubscribe(*filters: str | bytes, packet_id: int = 1, properties: bytes = b"") -> bytes:
    body = packet_id.to_bytes(2, "big") + section(properties)
    return packet(0xA2, body + b"".join(text(name) for name in filters))


def ack(first: int, packet_id: int, rest: bytes = b"") -> bytes:
    return packet(first, packet_id.to_bytes(2, "big") + rest)


PINGREQ = b"\xc0\x00"
DISCONNECT = b"\xe0\x00"
