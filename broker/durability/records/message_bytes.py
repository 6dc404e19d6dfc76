"""Messages and queue entries as bytes: exact, compact, and the same in every later release.

A message:

| part | bytes | there |
|---|---|---|
| format | 1 | always; the number of this table |
| flags | 1 | always: bits 0-1 QoS, 2 retain, 3 and 4 expiry, 5 has a peid, 6 author, 7 its user |
| length of the properties | 4 | always |
| place of the expiry interval in the properties | 4 | bit 3 |
| time of expiry | 8 | bit 4 (a will has none before it is sent) |
| peid | 8 | bit 5 |
| client id of who had it retained, with its length | | bit 6 |
| the user of that client, with its length | | bit 7 |
| topic with its length, properties, payload | | always |

Numbers have the highest byte first, as in MQTT.

One position in a session's order, which is a message to be delivered, or its release:

| part | bytes | there |
|---|---|---|
| format | 1 | always; the number of this table |
| flags | 1 | always: bits 0-1 QoS, 2 retain, 3 message elsewhere, 4 released |
| number of subscriptions | 2 | unless released |
| each: 0 for a filter or 1 for an nsid, its length, its text | 1 + 2 + n | unless released |
| number of the message | 8 | bit 3 |
| the message | | neither bit 3 nor 4 |
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from broker.codec.properties import NSID_BEGINNING
from broker.codec.publish import without_nsids
from broker.codec.reason_codes import ProtocolError
from broker.core.journal import MessageQueued
from broker.core.message import NO_EXPIRY, Message
from broker.core.subscribe.subscription import SubscriptionKey
from broker.core.verdicts import Identity
from schemas.errors import JournalError, LaterFormatError

FORMAT: Final = 1

_HEAD: Final = struct.Struct(">BBI")
_OFFSET: Final = struct.Struct(">I")
_TIME: Final = struct.Struct(">d")
_PEID: Final = struct.Struct(">Q")
_QOS: Final = 0x03
_RETAIN: Final = 0x04
_HAS_OFFSET: Final = 0x08
_HAS_TIME: Final = 0x10
_HAS_PEID: Final = 0x20
_HAS_AUTHOR: Final = 0x40
_HAS_USER: Final = 0x80


def message_to_bytes(message: Message) -> bytes:
    """Encode a message."""
    flags = message.qos
    middle = b""
    if message.retain:
        flags |= _RETAIN
    if message.expiry_offset != NO_EXPIRY:
        flags |= _HAS_OFFSET
        middle = _OFFSET.pack(message.expiry_offset)
    if message.expires_at is not None:
        flags |= _HAS_TIME
        middle += _TIME.pack(message.expires_at)
    if message.peid is not None:
        flags |= _HAS_PEID
        middle += _PEID.pack(message.peid)
    if message.author is not None:
        flags |= _HAS_AUTHOR
        middle += _text(message.author.client_id)
        if message.author.user_name is not None:
            flags |= _HAS_USER
            middle += _text(message.author.user_name)
    head = _HEAD.pack(FORMAT, flags, len(message.properties))
    return b"".join((head, middle, message.topic_field, message.properties, message.payload))


def message_from_bytes(data: bytes) -> Message:
    """Decode a message."""
    try:
        return _read(data)
    except (struct.error, UnicodeDecodeError, ProtocolError) as error:
        raise JournalError(f"a stored message is damaged: {error}") from error


def _read(data: bytes) -> Message:
    form, flags, properties_size = _HEAD.unpack_from(data)
    if form != FORMAT:
        raise LaterFormatError(f"a stored message has format {form}", FORMAT)
    at = _HEAD.size
    expires_at, expiry_offset, peid, author = None, NO_EXPIRY, None, None
    if flags & _HAS_OFFSET:
        (expiry_offset,) = _OFFSET.unpack_from(data, at)
        at += _OFFSET.size
    if flags & _HAS_TIME:
        (expires_at,) = _TIME.unpack_from(data, at)
        at += _TIME.size
    if flags & _HAS_PEID:
        (peid,) = _PEID.unpack_from(data, at)
        at += _PEID.size
    if flags & _HAS_AUTHOR:
        client_id, at = _read_text(data, at)
        user_name = None
        if flags & _HAS_USER:
            user_name, at = _read_text(data, at)
        author = Identity(client_id, user_name)
    topic, properties_at = _read_text(data, at)
    payload_at = properties_at + properties_size
    if payload_at > len(data):
        raise JournalError("a stored message is damaged: it is cut off")
    properties = data[properties_at:payload_at]
    if NSID_BEGINNING in properties:
        # A release that let publishers set the property may have stored it.
        properties, expiry_offset = without_nsids(properties)
    return Message(
        topic,
        data[payload_at:],
        properties=properties,
        qos=flags & _QOS,
        retain=bool(flags & _RETAIN),
        peid=peid,
        expires_at=expires_at,
        expiry_offset=expiry_offset,
        author=author,
    )


def _text(value: str) -> bytes:
    encoded = value.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    """Return a length-prefixed text, and the position after it."""
    start = at + 2
    end = start + int.from_bytes(data[at:start], "big")
    return data[start:end].decode(), end


ENTRY_FORMAT: Final = 1
_ENTRY_HEAD: Final = struct.Struct(">BBH")
_KEY: Final = struct.Struct(">BH")
_NUMBER: Final = struct.Struct(">Q")
_ELSEWHERE: Final = 0x08
_RELEASED: Final = 0x10
_IS_FILTER: Final = 0
_IS_NSID: Final = 1

# The client has the message, so neither it nor its subscriptions are needed any more.
RELEASED_ENTRY: Final = bytes((ENTRY_FORMAT, _RELEASED | 2))


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A decoded entry; ``message`` is its number when stored separately, None if released."""

    qos: int
    retain: bool
    keys: tuple[SubscriptionKey, ...]
    message: Message | int | None


def entry_with(record: MessageQueued, message: bytes) -> bytes:
    """Encode an entry that contains its message, which is given as bytes."""
    return _head(record, 0) + message


def entry_naming(record: MessageQueued, number: int) -> bytes:
    """Encode an entry whose message is stored once for several sessions."""
    return _head(record, _ELSEWHERE) + _NUMBER.pack(number)


def _head(record: MessageQueued, flags: int) -> bytes:
    flags |= record.qos | (_RETAIN if record.retain else 0)
    keys = record.keys
    parts = [_ENTRY_HEAD.pack(ENTRY_FORMAT, flags, len(keys))]
    for key in keys:
        text = str(key).encode()
        kind = _IS_FILTER if isinstance(key, str) else _IS_NSID
        parts += (_KEY.pack(kind, len(text)), text)
    return b"".join(parts)


def read_entry(data: bytes) -> QueueEntry:
    """Decode an entry."""
    try:
        return _read_entry(data)
    except (struct.error, IndexError, ValueError) as error:
        raise JournalError(f"a stored queue entry is damaged: {error}") from error


def _read_entry(data: bytes) -> QueueEntry:
    if data[0] != ENTRY_FORMAT:
        raise LaterFormatError(f"a queue entry has format {data[0]}", ENTRY_FORMAT)
    flags = data[1]
    qos, retain = flags & _QOS, bool(flags & _RETAIN)
    if flags & _RELEASED:
        return QueueEntry(qos, retain, (), None)
    _, _, count = _ENTRY_HEAD.unpack_from(data)
    at = _ENTRY_HEAD.size
    keys: list[SubscriptionKey] = []
    for _ in range(count):
        kind, size = _KEY.unpack_from(data, at)
        start = at + _KEY.size
        at = start + size
        text = data[start:at].decode()
        keys.append(int(text) if kind == _IS_NSID else text)
    message: Message | int
    if flags & _ELSEWHERE:
        message = _NUMBER.unpack_from(data, at)[0]
    else:
        message = message_from_bytes(data[at:])
    return QueueEntry(qos, retain, tuple(keys), message)
