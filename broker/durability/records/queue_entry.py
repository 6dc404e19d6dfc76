"""One place in a session's order, as bytes: a message that is owed, or its release.

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

from broker.core.journal import MessageQueued
from broker.core.message import Message
from broker.core.subscribe.subscription import SubscriptionKey
from broker.durability.records.message_bytes import message_from_bytes
from schemas.errors import JournalError, LaterFormatError

FORMAT: Final = 1

_HEAD: Final = struct.Struct(">BBH")
_KEY: Final = struct.Struct(">BH")
_NUMBER: Final = struct.Struct(">Q")
_QOS: Final = 0x03
_RETAIN: Final = 0x04
_ELSEWHERE: Final = 0x08
_RELEASED: Final = 0x10
_IS_FILTER: Final = 0
_IS_NSID: Final = 1

# The client has the message: neither it nor its subscriptions are of use any more.
RELEASED_ENTRY: Final = bytes((FORMAT, _RELEASED | 2))


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """What was stored; ``message`` is its number when it is kept elsewhere, None if released."""

    qos: int
    retain: bool
    keys: tuple[SubscriptionKey, ...]
    message: Message | int | None


def entry_with(record: MessageQueued, message: bytes) -> bytes:
    """An entry that holds its message, which is given as bytes."""
    return _head(record, 0) + message


def entry_naming(record: MessageQueued, number: int) -> bytes:
    """An entry whose message is kept once for several sessions."""
    return _head(record, _ELSEWHERE) + _NUMBER.pack(number)


def _head(record: MessageQueued, flags: int) -> bytes:
    flags |= record.qos | (_RETAIN if record.retain else 0)
    keys = record.keys
    parts = [_HEAD.pack(FORMAT, flags, len(keys))]
    for key in keys:
        text = str(key).encode()
        kind = _IS_FILTER if isinstance(key, str) else _IS_NSID
        parts += (_KEY.pack(kind, len(text)), text)
    return b"".join(parts)


def read_entry(data: bytes) -> QueueEntry:
    """The entry that these bytes were made of."""
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise JournalError(f"a stored queue entry is damaged: {error}") from error


def _read(data: bytes) -> QueueEntry:
    if data[0] != FORMAT:
        raise LaterFormatError(f"a queue entry has format {data[0]}", FORMAT)
    flags = data[1]
    qos, retain = flags & _QOS, bool(flags & _RETAIN)
    if flags & _RELEASED:
        return QueueEntry(qos, retain, (), None)
    _, _, count = _HEAD.unpack_from(data)
    at = _HEAD.size
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
