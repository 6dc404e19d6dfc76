"""One application message, its delivery to one session, and the PUBLISH packet of that.

The sender's properties stay the bytes that came in, so they are passed on unchanged and in
order. Only the topic alias is removed, because it belongs to the connection, and only the
message expiry is overwritten when time has passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final

from broker.codec.fields import varint

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
    from broker.core.subscribe.subscription import Subscription
    from broker.core.verdicts import Identity

NO_EXPIRY: Final = -1
# Receivers share a payload beyond this, instead of having a copy each.
LARGE_PAYLOAD: Final = 16_384
# A delivery and the objects of its message without their content, as measured.
DELIVERY_BYTES: Final = 400
# The name of one subscription that these include.
SHORT_RECORD_BYTES: Final = 200
_TOPIC_ALIAS: Final = b"\x23"
_NO_TOPIC: Final = b"\x00\x00"


class Message:
    """``topic_field`` is the topic with its length in front, as in a packet.

    ``expiry_offset`` is where the four bytes of the message expiry stand in ``properties``,
    or ``NO_EXPIRY``; ``expires_at`` is when they run out on the core's clock. ``author`` is the
    client that had it retained: it is sent only as long as that client may publish it.
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
        # Bytes that keeping the message costs, as limits count them.
        self.size = topic_bytes(topic, topic_field) + len(properties) + len(payload)

    def name_entity(self, peid: int, peid_property: bytes) -> None:
        """Set the entity that the topic names, of which receivers are told by a property."""
        self.peid = peid
        self.properties += peid_property
        self.size += len(peid_property)

    def has_expired(self, now: float) -> bool:
        """Return whether its expiry interval has passed."""
        return self.expires_at is not None and now >= self.expires_at

    def properties_at(self, now: float) -> bytes:
        """Return the properties to send now: the expiry counts down while a message waits."""
        if self.expires_at is None:
            return self.properties
        start = self.expiry_offset
        # Rounded up: a message that is passed on at once keeps the interval it came with.
        left = max(0, math.ceil(self.expires_at - now))
        return self.properties[:start] + left.to_bytes(4, "big") + self.properties[start + 4 :]

    def packet_parts(
        self, first: int, extra: bytes, now: float, topic_field: bytes | None = None
    ) -> tuple[bytes, bytes]:
        """Return a PUBLISH that begins with ``first``: the parts around its packet identifier.

        ``extra`` are the broker's own properties, which go before the sender's. A large payload
        is left out, and is to be written after both parts. All receivers share it.
        """
        topic_field = self.topic_field if topic_field is None else topic_field
        properties = self.properties_at(now)
        length = varint(len(properties) + len(extra))
        apart = len(self.payload) if len(self.payload) > LARGE_PAYLOAD else 0
        after = b"".join((length, extra, properties, b"" if apart else self.payload))
        remaining = len(topic_field) + len(after) + apart + (2 if first & 0x06 else 0)
        return b"".join((bytes((first,)), varint(remaining), topic_field)), after

    def parts_without_properties(self, first: int) -> tuple[bytes, bytes]:
        """Return the same for a client of MQTT 3, whose PUBLISH has no properties."""
        apart = len(self.payload) > LARGE_PAYLOAD
        remaining = len(self.topic_field) + len(self.payload) + (2 if first & 0x06 else 0)
        before = b"".join((bytes((first,)), varint(remaining), self.topic_field))
        return before, b"" if apart else self.payload


def topic_bytes(topic: str, topic_field: bytes) -> int:
    """Return what the topic of a message costs.

    It is there twice, and a text that is not ASCII may take four bytes for each letter.
    """
    return (2 if topic.isascii() else 5) * len(topic_field)


# Stands for a message that its client has: only the packet identifier matters then.
RELEASED_MESSAGE: Final = Message("", b"", qos=2)


class Stage(Enum):
    """The progress of a delivery."""

    WAITING = "waiting"  # in the queue
    SENT = "sent"  # until PUBACK or PUBREC
    RELEASED = "released"  # PUBREC came: until PUBCOMP


class Delivery:
    """One message for one session, because of these subscriptions."""

    __slots__ = (
        "message", "packet_id", "position", "qos", "retain", "size", "stage", "subscriptions",
        "was_written",
    )  # fmt: skip

    def __init__(
        self,
        message: Message,
        qos: int,
        subscriptions: tuple[Subscription, ...],
        *,
        retain: bool = False,
    ) -> None:
        self.message = message
        self.qos = qos
        self.subscriptions = subscriptions
        self.retain = retain
        self.stage = Stage.WAITING
        # 0 until it is first sent; then it keeps its identifier, also over reconnects.
        self.packet_id = 0
        # Whether the client may have got it: kept for QoS 2 alone.
        self.was_written = False
        # Its place in the session's order; 0: it is not recorded.
        self.position = 0
        # Bytes that it costs while it waits or is in flight, here and where it is recorded.
        size = message.size + DELIVERY_BYTES
        if len(subscriptions) > 1:
            size += sum([one.record_bytes for one in subscriptions])
        elif subscriptions and subscriptions[0].record_bytes > SHORT_RECORD_BYTES:
            # A filter may be long though the topic is short: by the name of its share group.
            size += subscriptions[0].record_bytes
        self.size = size

    def note_written(self) -> None:
        """Note that the client may get it from now on."""
        self.was_written = True

    def release(self) -> int:
        """Drop the message, which the client has; return the bytes that this frees."""
        freed = self.size - DELIVERY_BYTES
        self.size = DELIVERY_BYTES
        self.message = RELEASED_MESSAGE
        self.subscriptions = ()
        return freed


def delivery_packet(
    connection: Connection, delivery: Delivery, now: float, *, is_again: bool, new_alias: bool
) -> tuple[bytes, ...]:
    """Return the packet in parts; ``new_alias``: it may introduce an alias that later ones use."""
    message = delivery.message
    first = 0x30 | (0x08 if is_again else 0) | delivery.qos << 1 | delivery.retain
    identifier = delivery.packet_id.to_bytes(2, "big") if delivery.qos else b""
    if not connection.has_properties:
        return _joined(message, message.parts_without_properties(first), identifier)
    # A repetition has the same properties as before, also when a subscription has ended since: MQTT
    # wants deliveries to be completed, and without its nsid the client cannot assign the message.
    extra = b"".join([one.extra for one in delivery.subscriptions if one.active or is_again])
    topic_field = message.topic_field
    aliases = connection.aliases_out
    alias, is_known = aliases.of(topic_field) if aliases is not None else (0, False)
    uses_alias = alias != 0 and (is_known or new_alias)
    if uses_alias:
        extra = _TOPIC_ALIAS + alias.to_bytes(2, "big") + extra
        if is_known:
            topic_field = _NO_TOPIC
    parts = message.packet_parts(first, extra, now, topic_field)
    packet = _joined(message, parts, identifier)
    if aliases is not None and uses_alias and not is_known:
        if not connection.takes(sum(map(len, packet))):
            # The alias itself may be what makes it too large.
            return delivery_packet(connection, delivery, now, is_again=is_again, new_alias=False)
        aliases.sent(message.topic_field, alias)
    return packet


def _joined(message: Message, parts: tuple[bytes, bytes], identifier: bytes) -> tuple[bytes, ...]:
    """Return the parts around the packet identifier as one, and a large payload apart."""
    packet = b"".join((parts[0], identifier, parts[1]))
    return (packet, message.payload) if len(message.payload) > LARGE_PAYLOAD else (packet,)


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
