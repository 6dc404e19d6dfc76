"""Packets of MQTT 3.1.1 and 3.1: made byte by byte, and read into what they say."""

from __future__ import annotations

from dataclasses import dataclass

from tests.broker_core.encode import packet, text

NAMES = {3: b"MQIsdp", 4: b"MQTT"}
CLEAN = 0x02


def connect(
    client_id: str | bytes = "c",
    *,
    level: int = 4,
    flags: int = CLEAN,
    rest: bytes = b"",
    keep_alive: int = 60,
    name: bytes | None = None,
) -> bytes:
    """``rest`` is what follows the client id: will, user name, password."""
    head = text(NAMES[level] if name is None else name) + bytes((level, flags))
    return packet(0x10, head + keep_alive.to_bytes(2, "big") + text(client_id) + rest)


def publish(
    topic: str | bytes = "t",
    payload: bytes = b"",
    *,
    qos: int = 0,
    packet_id: int | None = None,
    retain: bool = False,
    duplicate: bool = False,
) -> bytes:
    first = 0x30 | duplicate << 3 | qos << 1 | retain
    identifier = b"" if packet_id is None else packet_id.to_bytes(2, "big")
    return packet(first, text(topic) + identifier + payload)


def subscribe(*filters: tuple[str | bytes, int], packet_id: int = 1) -> bytes:
    """Filters with their QoS."""
    body = b"".join(text(name) + bytes((qos,)) for name, qos in filters)
    return packet(0x82, packet_id.to_bytes(2, "big") + body)


def unsubscribe(*filters: str | bytes, packet_id: int = 1) -> bytes:
    return packet(0xA2, packet_id.to_bytes(2, "big") + b"".join(map(text, filters)))


@dataclass(frozen=True)
class Connack:
    code: int
    session_present: bool = False


@dataclass(frozen=True)
class Published:
    topic: str
    payload: bytes
    qos: int = 0
    packet_id: int = 0
    retain: bool = False
    duplicate: bool = False


@dataclass(frozen=True)
class Acknowledged:
    """PUBACK, PUBREC, PUBREL, PUBCOMP or UNSUBACK, by its first byte."""

    kind: int
    packet_id: int


@dataclass(frozen=True)
class Suback:
    packet_id: int
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Pong:
    """PINGRESP."""


Packet3 = Connack | Published | Acknowledged | Suback | Pong


def read(data: bytes) -> tuple[Packet3, int]:
    """The packet that data begin with, and its size; anything else than MQTT 3 fails."""
    length = shift = 0
    at = 1
    while True:
        length |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            break
    body = data[at : at + length]
    assert len(body) == length
    return _packet(data[0], body), at + length


def _packet(first: int, body: bytes) -> Packet3:
    match first & 0xF0:
        case 0x20:
            assert first == 0x20
            assert len(body) == 2
            assert body[0] <= 1
            return Connack(body[1], bool(body[0]))
        case 0x30:
            return _published(first, body)
        case 0x90:
            assert first == 0x90
            return Suback(int.from_bytes(body[:2], "big"), tuple(body[2:]))
        case 0xD0:
            assert (first, body) == (0xD0, b"")
            return Pong()
        case _:
            assert first in (0x40, 0x50, 0x62, 0x70, 0xB0)
            assert len(body) == 2
            return Acknowledged(first, int.from_bytes(body, "big"))


def _published(first: int, body: bytes) -> Published:
    qos = first >> 1 & 3
    end = 2 + int.from_bytes(body[:2], "big")
    topic, packet_id = body[2:end].decode(), 0
    if qos:
        packet_id = int.from_bytes(body[end : end + 2], "big")
        end += 2
    return Published(topic, body[end:], qos, packet_id, bool(first & 1), bool(first & 8))
