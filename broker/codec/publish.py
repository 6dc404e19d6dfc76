"""A client's PUBLISH, scanned: fields and slices of the packet, no more.

PUBLISH alone is not read by the ``mqtt5`` package: its properties are passed on as the bytes
they came as, so all that is needed is where they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.codec.errors import malformed, violation
from broker.codec.properties import (
    IN_PUBLISH,
    MESSAGE_EXPIRY_INTERVAL,
    TOPIC_ALIAS,
    USER_PROPERTY,
    Property,
    read_properties,
)
from broker.codec.text import field_end
from schemas.limits import MAX_PEID
from schemas.user_properties import PEID

# The beginning of a user property named peid whose value is shorter than 256 bytes.
PEID_PREFIX: Final = b"\x26\x00\x04" + PEID.encode() + b"\x00"
_PEID_NAME: Final = PEID_PREFIX[:-1]
# No integer up to 2^63-1 has more digits.
MAX_PEID_DIGITS: Final = 19


@dataclass(slots=True)
class MessageProperties:
    """What routing needs of a message's properties; ``raw`` is what receivers get."""

    raw: bytes
    expiry: int | None = None
    expiry_offset: int = -1
    alias: int | None = None
    peid: int | None = None
    # A peid that is there and cannot be one; the text says why.
    peid_error: str | None = None


@dataclass(slots=True)
class Publish:
    """``topic`` is still bytes: a known topic need not be checked again."""

    qos: int
    retain: bool
    duplicate: bool
    topic: bytes
    packet_id: int
    properties: MessageProperties
    payload: bytes


def read_publish(data: bytes, first: int, body: int, end: int) -> Publish:
    """The PUBLISH whose fixed header begins with ``first`` and whose body is given."""
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
    properties, stop = read_message_properties(data, position, end)
    return Publish(
        qos, bool(first & 0x01), bool(first & 0x08), topic, packet_id, properties, data[stop:end]
    )


def read_message_properties(data: bytes, position: int, end: int) -> tuple[MessageProperties, int]:
    """The properties of a PUBLISH and where its payload begins."""
    if position < end and data[position] == 0:
        return MessageProperties(b""), position + 1
    found, stop = read_properties(data, position, end, IN_PUBLISH)
    return select_properties(data, found, dropped=TOPIC_ALIAS), stop


def select_properties(data: bytes, found: list[Property], dropped: int) -> MessageProperties:
    """The checked properties of a message, without the one that is not for its receivers."""
    selected = MessageProperties(b"")
    kept: list[bytes] = []
    length = 0
    for identifier, start, stop in found:
        if identifier == TOPIC_ALIAS:
            selected.alias = data[start + 1] << 8 | data[start + 2]
        elif identifier == MESSAGE_EXPIRY_INTERVAL:
            selected.expiry = int.from_bytes(data[start + 1 : stop], "big")
            selected.expiry_offset = length + 1
        elif identifier == USER_PROPERTY and data.startswith(_PEID_NAME, start):
            _take_peid(selected, data[start + len(_PEID_NAME) + 2 : stop])
        if identifier != dropped:
            kept.append(data[start:stop])
            length += stop - start
    selected.raw = b"".join(kept)
    return selected


def _take_peid(selected: MessageProperties, value: bytes) -> None:
    if selected.peid is not None or selected.peid_error is not None:
        selected.peid_error = "a message is about one entity, but has more than one peid"
        return
    selected.peid = parse_peid(value)
    if selected.peid is None:
        selected.peid_error = f"peid must be a decimal integer from 0 to {MAX_PEID}"


def parse_peid(value: bytes) -> int | None:
    """The peid that the text stands for, None if it stands for none."""
    if not value.isdigit() or len(value) > MAX_PEID_DIGITS:
        return None
    peid = int(value)
    return peid if peid <= MAX_PEID else None
