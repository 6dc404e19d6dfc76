"""One application message on its way: raw parts of its PUBLISH, and what routing needs.

The sender's properties stay the bytes they came as, so they are passed on untouched and in
order. Only what is the connection's business is taken out (the topic alias), and only the
message expiry is written over when time has passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from broker.codec.framing import varint
from broker.core.verdicts import Identity

NO_EXPIRY: Final = -1
# Receivers share a payload beyond this, instead of having a copy each.
LARGE_PAYLOAD: Final = 16_384


class Message:
    """``topic_field`` is the topic with its length in front, as in a packet.

    ``expiry_offset`` is where the four bytes of the message expiry stand in ``properties``,
    or ``NO_EXPIRY``; ``expires_at`` is when they run out on the core's clock. ``author`` is the
    client that had it retained: it is given out only as long as that client may publish it.
    """

    __slots__ = (
        "author", "expires_at", "expiry_offset", "payload", "peid", "properties", "qos",
        "retain", "size", "topic", "topic_field",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - one for each part of a PUBLISH
        self,
        topic: str,
        payload: bytes,
        *,
        properties: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        peid: int | None = None,
        expires_at: float | None = None,
        expiry_offset: int = NO_EXPIRY,
        topic_field: bytes | None = None,
        author: Identity | None = None,
    ) -> None:
        self.topic = topic
        if topic_field is None:
            encoded = topic.encode()
            topic_field = len(encoded).to_bytes(2, "big") + encoded
        self.topic_field = topic_field
        self.payload = payload
        self.properties = properties
        self.qos = qos
        self.retain = retain
        self.peid = peid
        self.expires_at = expires_at
        self.expiry_offset = expiry_offset
        self.author = author
        # Bytes that keeping the message costs, as limits count them. The topic is there twice, and
        # a text that is not ASCII may take four bytes for each letter.
        topics = 2 if topic.isascii() else 5
        self.size = topics * len(topic_field) + len(properties) + len(payload)

    def has_expired(self, now: float) -> bool:
        """Whether its expiry interval has passed."""
        return self.expires_at is not None and now >= self.expires_at

    def properties_at(self, now: float) -> bytes:
        """The properties to send now: the expiry counts down while a message waits."""
        if self.expires_at is None:
            return self.properties
        start = self.expiry_offset
        # Rounded up: a message that is passed on at once keeps the interval it came with.
        left = max(0, math.ceil(self.expires_at - now))
        return self.properties[:start] + left.to_bytes(4, "big") + self.properties[start + 4 :]

    def plain_copy(self, first: int, extra: bytes, now: float) -> tuple[bytes, bytes]:
        """A PUBLISH that begins with ``first``, in two parts: a packet identifier goes between.

        A large payload is left out, and is to be written after them.
        """
        properties = self.properties_at(now)
        length = varint(len(properties) + len(extra))
        apart = len(self.payload) if len(self.payload) > LARGE_PAYLOAD else 0
        after = b"".join((length, extra, properties, b"" if apart else self.payload))
        remaining = len(self.topic_field) + len(after) + apart + (2 if first & 0x06 else 0)
        return b"".join((bytes((first,)), varint(remaining), self.topic_field)), after


def publish_parts(  # noqa: PLR0913 - one for each field that differs between receivers
    topic_field: bytes,
    payload: bytes,
    properties: bytes,
    *,
    extra: bytes = b"",
    qos: int = 0,
    retain: bool = False,
    duplicate: bool = False,
    packet_id: int = 0,
) -> tuple[bytes, ...]:
    """A PUBLISH packet; ``extra`` are our own properties, which go before the sender's.

    A large payload is a part of its own, which all receivers share.
    """
    first = 0x30 | (0x08 if duplicate else 0) | qos << 1 | (0x01 if retain else 0)
    properties_length = varint(len(properties) + len(extra))
    identifier = packet_id.to_bytes(2, "big") if qos else b""
    remaining = (
        len(topic_field)
        + len(identifier)
        + len(properties_length)
        + len(properties)
        + len(extra)
        + len(payload)
    )
    parts = (
        bytes((first,)), varint(remaining), topic_field, identifier,
        properties_length, extra, properties,
    )  # fmt: skip
    if len(payload) > LARGE_PAYLOAD:
        return b"".join(parts), payload
    return (b"".join((*parts, payload)),)


def shared_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in as few parts as there can be without a copy of a large payload."""
    small: list[bytes] = []
    for part in parts:
        if len(part) <= LARGE_PAYLOAD:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield part
    if small:
        yield b"".join(small)
