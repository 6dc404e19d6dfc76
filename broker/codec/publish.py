"""A client's PUBLISH, scanned: fields and slices of the packet, and the entity that it is about.

PUBLISH alone is not read by the ``mqtt5`` package: its properties are passed on as the bytes
that came in, so all that is needed is where they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.codec.fields import SHORT_VARINTS, field_end, varint
from broker.codec.properties import (
    IN_PUBLISH,
    MESSAGE_EXPIRY_INTERVAL,
    NSID_BEGINNING,
    PEID_BEGINNING,
    TOPIC_ALIAS,
    PropertySection,
    read_properties,
)
from broker.codec.reason_codes import malformed, violation
from schemas.language.limits import MAX_PEID

# The beginning of a user property named peid whose value is shorter than 256 bytes.
PEID_PREFIX: Final = PEID_BEGINNING + b"\x00"
# Where the value stands in properties that are one such peid.
PEID_VALUE_AT: Final = len(PEID_PREFIX) + 1
# The number of digits of 2^63-1.
MAX_PEID_DIGITS: Final = 19
# The first byte of a QoS 0 PUBLISH, and the same with each remaining length of up to two bytes.
QOS_0: Final = 0x30
QOS_0_HEADERS: Final = tuple(bytes((QOS_0,)) + length for length in SHORT_VARINTS)
# The same for QoS 1.
QOS_1: Final = 0x32
QOS_1_HEADERS: Final = tuple(bytes((QOS_1,)) + length for length in SHORT_VARINTS)
# Lengths of properties that take one byte.
SHORT_LENGTHS: Final = SHORT_VARINTS[:0x80]


@dataclass(slots=True)
class MessageProperties:
    """The properties of a message that routing needs; ``raw`` are those that receivers get."""

    raw: bytes
    expiry: int | None = None
    expiry_offset: int = -1
    alias: int | None = None
    peid: int | None = None
    # Why the peid property is not valid.
    peid_error: str | None = None
    # The number of its user properties.
    users: int = 0


@dataclass(slots=True)
class Publish:
    """A PUBLISH. ``topic`` is still bytes: a known topic need not be checked again."""

    qos: int
    retain: bool
    topic: bytes
    packet_id: int
    properties: MessageProperties
    payload: bytes


def read_publish(data: bytes, first: int, body: int, end: int, most_users: int) -> Publish:
    """Return the PUBLISH whose fixed header begins with ``first`` and whose body is given.

    ``most_users`` is the most user properties that it may hold.
    """
    qos = first >> 1 & 3
    if qos == 3:
        raise malformed("QoS 3 does not exist")
    if first & 0x08 and not qos:
        raise malformed("a QoS 0 message cannot be a duplicate")
    position = field_end(data, body, end)
    topic = data[body + 2 : position]
    packet_id = 0
    if qos:
        if position + 2 > end:
            raise malformed("the packet identifier is cut off")
        packet_id = data[position] << 8 | data[position + 1]
        if not packet_id:
            raise violation("the packet identifier is 0")
        position += 2
    properties, stop = read_message_properties(data, position, end, most_users)
    return Publish(qos, bool(first & 0x01), topic, packet_id, properties, data[stop:end])


def read_message_properties(
    data: bytes, position: int, end: int, most_users: int
) -> tuple[MessageProperties, int]:
    """Return the properties of a PUBLISH and where its payload begins."""
    if position < end and data[position] == 0:
        return MessageProperties(b""), position + 1
    section = read_properties(data, position, end, IN_PUBLISH, most_users)
    return select_properties(data, section, dropped=TOPIC_ALIAS), section.stop


def select_properties(data: bytes, section: PropertySection, dropped: int) -> MessageProperties:
    """Return the checked properties of a message without those that are not for receivers.

    These are ``dropped`` and every nsid: only the broker says which subscriptions matched.
    """
    selected = MessageProperties(b"", users=section.users)
    kept: list[bytes] = []
    # Everything before ``position`` is in ``kept`` or left out; ``length`` bytes are in it.
    position, length = section.start, 0
    for identifier, start, stop in section.found:
        if identifier == TOPIC_ALIAS:
            selected.alias = data[start + 1] << 8 | data[start + 2]
        elif identifier == MESSAGE_EXPIRY_INTERVAL:
            selected.expiry = int.from_bytes(data[start + 1 : stop], "big")
            selected.expiry_offset = length + start - position + 1
        elif data.startswith(PEID_BEGINNING, start):
            _take_peid(selected, data[start + len(PEID_BEGINNING) + 2 : stop])
        if identifier == dropped or data.startswith(NSID_BEGINNING, start):
            kept.append(data[position:start])
            length += start - position
            position = stop
    kept.append(data[position : section.stop])
    selected.raw = b"".join(kept)
    return selected


def without_nsids(properties: bytes) -> tuple[bytes, int]:
    """Return the properties of a stored message without any nsid, and where its expiry is."""
    data = varint(len(properties)) + properties
    selected, _ = read_message_properties(data, 0, len(data), len(properties))
    return selected.raw, selected.expiry_offset


def _take_peid(selected: MessageProperties, value: bytes) -> None:
    if selected.peid is not None or selected.peid_error is not None:
        selected.peid_error = "a message is about one entity, but has more than one peid"
        return
    selected.peid = parse_peid(value)
    if selected.peid is None:
        selected.peid_error = f"peid must be a decimal integer from 0 to {MAX_PEID}"


def parse_peid(value: bytes) -> int | None:
    """Return the peid in a text; None when it is no peid."""
    if not value.isdigit() or len(value) > MAX_PEID_DIGITS:
        return None
    peid = int(value)
    return peid if peid <= MAX_PEID else None


def peid_property(peid: int) -> bytes:
    """Return the user property that names an entity."""
    digits = str(peid).encode()
    return PEID_PREFIX + bytes((len(digits),)) + digits
