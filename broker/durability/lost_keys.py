"""Keys of the durable state that Redis has lost: noticed, found again, kept for inspection."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from broker.durability.records.field_names import SESSION_FIELD
from broker.durability.records.shared_messages import SharedMessages
from broker.durability.records.store_commands import Edition
from broker.durability.records.stored_names import StoredNames
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import RedisConnection, RedisReplyError, pack
from schemas.redis_keys import (
    journal_damaged_key,
    journal_retained_key,
    journal_session_key,
    journal_sessions_key,
)

SCANNED_AT_ONCE: Final = 10_000
# Sessions that are looked at in one look.
SESSIONS_LOOKED_AT: Final = 100
KEEP_SECONDS: Final = 30 * 86_400


async def is_whole(
    wire: RedisConnection, edition: Edition, names: StoredNames, shared: SharedMessages
) -> bool:
    """Whether the keys of an edition are there, with some of its sessions in turn.

    A session that was lost and written to since then is there again, without its first field.
    """
    asked: list[bytes] = []
    expected: list[bytes | int] = []
    for key, kind, is_needed in (
        (edition.sessions, b"set", bool(names.clients)),
        (edition.retained, b"hash", bool(names.topics)),
        (edition.messages, b"hash", len(shared) > 0),
    ):
        if is_needed:
            asked.append(pack("TYPE", key))
            expected.append(kind)
    for client_id in names.some_clients(SESSIONS_LOOKED_AT):
        asked.append(pack("HEXISTS", edition.session(client_id), SESSION_FIELD))
        expected.append(1)
    if not asked:
        return True
    answers = await wire.send(b"".join(asked), len(asked))
    for answer in answers:
        if isinstance(answer, RedisReplyError) and not is_wrong_type(answer):
            raise answer
    return bool(answers == expected)


async def session_names(wire: RedisConnection, edition: Edition, losses: list[str]) -> list[str]:
    """Return the clients of an edition: by its index, or by its keys when the index is lost."""
    if await wire.ask("TYPE", edition.sessions) == b"set":
        return [name.decode() for name in await wire.ask("SMEMBERS", edition.sessions)]
    prefix = edition.session("")
    found = [key.removeprefix(prefix) for key in await _scan(wire, f"{prefix}*")]
    if found:
        losses.append(f"the index of sessions was lost; {len(found)} sessions were found again")
    return sorted(found)


async def last_stored_edition(wire: RedisConnection, broker: str) -> int:
    """Return the newest edition that has keys; 0 for none: who knew its number is lost."""
    numbers = [0]
    for key_of in (journal_sessions_key, journal_retained_key):
        head, tail = key_of(broker, 7).split("e7:")
        pattern = re.compile(re.escape(f"{head}e") + r"(\d+)" + re.escape(f":{tail}"))
        for key in await _scan(wire, f"{head}e*:{tail}"):
            match = pattern.fullmatch(key)
            numbers += [] if match is None else [int(match[1])]
    return max(numbers)


async def set_aside(wire: RedisConnection, broker: str, keys: Iterable[str]) -> list[str]:
    """Copy keys that could not be read for somebody to look at; the names of the copies."""
    copies = []
    for key in keys:
        copy = journal_damaged_key(broker, key)
        if await wire.ask("COPY", key, copy, "REPLACE"):
            await wire.ask("EXPIRE", copy, KEEP_SECONDS)
            copies.append(copy)
    return copies


async def remove_sessions_of(wire: RedisConnection, edition: Edition) -> None:
    """Unlink the sessions of an edition whose index is lost."""
    for key in await _scan(wire, journal_session_key(edition.broker, edition.number, "*")):
        await wire.ask("UNLINK", key)


async def _scan(wire: RedisConnection, pattern: str) -> list[str]:
    cursor, found = b"0", set()
    while True:
        cursor, keys = await wire.ask("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED_AT_ONCE)
        found |= {key.decode() for key in keys}
        if cursor == b"0":
            return sorted(found)
