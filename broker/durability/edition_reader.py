"""Reads an edition back as records, in the form in which the core writes them.

What Redis has lost or damaged is left out and reported: losing one session is better than a broker
that does not start. Data of a later release is not damage, but an error. Lost keys are detected
while the broker runs, too.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from broker.core.journal import Record, RetainedSaved
from broker.core.message import Message
from broker.durability.records.edition_contents import SharedMessages, StoredNames
from broker.durability.records.message_bytes import message_from_bytes
from broker.durability.records.session_fields import SESSION_FIELD, session_records
from broker.durability.records.store_commands import Edition
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import (
    RedisConnection,
    RedisReplyError,
    first_answer,
    pack,
)
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import JournalError, LaterFormatError
from schemas.redis_keys import (
    journal_damaged_key,
    journal_retained_key,
    journal_sessions_key,
)

log = logging.getLogger(__name__)

# Sessions that are read concurrently: each may be as large as its queue limit.
SESSIONS_AT_ONCE: Final = 32
FIELDS_AT_ONCE: Final = 500
PROGRESS_SESSIONS: Final = 10_000


class LoadedState:
    """The contents of an edition."""

    __slots__ = ("damaged", "losses", "names", "records", "shared", "unowned")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.shared = SharedMessages()
        self.names = StoredNames()
        # Numbers of shared messages that no session waits for.
        self.unowned: set[int] = set()
        # Descriptions of what could not be read, and the keys that hold it.
        self.losses: list[str] = []
        self.damaged: set[str] = set()

    def lose(self, key: str, error: JournalError) -> None:
        """Record a loss and its key."""
        if isinstance(error, LaterFormatError):
            raise error
        self.losses.append(str(error))
        self.damaged.add(key)


async def load_edition(router: RedisRouter, edition: Edition) -> LoadedState:
    """Return everything in an edition; it must not be written to meanwhile."""
    connection = await router.of_key(edition.journal)
    state = LoadedState()
    messages: dict[int, Message] = {}
    async for number, packed in _fields(connection, state, edition.messages):
        try:
            messages[int(number)] = message_from_bytes(packed)
        except JournalError as error:
            state.lose(edition.messages, error)
    clients = await session_names(connection, edition, state.losses)
    asked: deque[tuple[str, asyncio.Future[list[Any]]]] = deque()
    for done, client_id in enumerate(clients):
        if done and done % PROGRESS_SESSIONS == 0:
            log.info("durable state: %d of %d sessions read", done, len(clients))
        asked.append((client_id, connection.send(pack("HGETALL", edition.session(client_id)), 1)))
        if len(asked) >= SESSIONS_AT_ONCE:
            await _take(state, edition, messages, *asked.popleft())
    while asked:
        await _take(state, edition, messages, *asked.popleft())
    async for topic, packed in _fields(connection, state, edition.retained):
        try:
            message = message_from_bytes(packed)
            if message.topic.encode() != topic:
                raise JournalError(f"the retained message of {topic!r} is another topic's")  # noqa: TRY301
        except JournalError as error:
            state.lose(edition.retained, error)
            continue
        state.records.append(RetainedSaved(message))
        state.names.topics.add(message.topic)
    await _compare_counts(connection, state, edition)
    state.unowned = {number for number in messages if number not in state.shared}
    return state


async def _compare_counts(
    connection: RedisConnection, state: LoadedState, edition: Edition
) -> None:
    """Report keys that are gone by comparing the counts; earlier releases stored none."""
    found = await connection.ask("HMGET", edition.journal, *edition.count_fields)
    known = (len(state.names.clients), len(state.names.topics))
    for what, count, there in zip(("sessions", "retained messages"), found, known, strict=True):
        if count is not None and count.isdigit() and int(count) > there:
            state.losses.append(f"{int(count) - there} of {int(count)} {what} are gone")


async def _take(
    state: LoadedState,
    edition: Edition,
    messages: dict[int, Message],
    client_id: str,
    answers: asyncio.Future[list[Any]],
) -> None:
    key = edition.session(client_id)
    try:
        flat = _of_kind(await answers, f"the session of {client_id!r}")
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        parts = session_records(
            client_id, fields, messages, state.shared, lambda error: state.lose(key, error)
        )
        state.records += list(parts)
    except JournalError as error:
        state.shared.let_all_go(client_id)
        state.lose(key, error)
    else:
        state.names.clients.add(client_id)


async def _fields(
    connection: RedisConnection, state: LoadedState, key: str
) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield the fields of a large hash, each once; nothing for a key of another type."""
    seen: set[bytes] = set()
    cursor = b"0"
    while True:
        answers = await connection.send(pack("HSCAN", key, cursor, "COUNT", FIELDS_AT_ONCE), 1)
        try:
            cursor, flat = _of_kind(answers, f"what was stored in {key}")
        except JournalError as error:
            state.lose(key, error)
            return
        for name, value in zip(flat[::2], flat[1::2], strict=True):
            if name not in seen:
                seen.add(name)
                yield name, value
        if cursor == b"0":
            return


def _of_kind(answers: list[Any], what: str) -> Any:
    """Return the answer; JournalError when the key holds another kind of value."""
    try:
        return first_answer(answers)
    except RedisReplyError as error:
        if is_wrong_type(error):
            raise JournalError(f"{what} is lost: its key in Redis has another type") from error
        raise


SCANNED_AT_ONCE: Final = 10_000
# Sessions that are checked at a time.
SESSIONS_LOOKED_AT: Final = 100
KEEP_SECONDS: Final = 30 * 86_400


async def is_whole(
    connection: RedisConnection, edition: Edition, names: StoredNames, shared: SharedMessages
) -> bool:
    """Return whether the keys of an edition exist, and those of some sessions in turn.

    A session that was lost and then written to exists again, but without its first field.
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
    answers = await connection.send(b"".join(asked), len(asked))
    for answer in answers:
        if isinstance(answer, RedisReplyError) and not is_wrong_type(answer):
            raise answer
    return bool(answers == expected)


async def session_names(
    connection: RedisConnection, edition: Edition, losses: list[str]
) -> list[str]:
    """Return the clients of an edition, by its index, or by its keys when the index is lost."""
    if await connection.ask("TYPE", edition.sessions) == b"set":
        return [name.decode() for name in await connection.ask("SMEMBERS", edition.sessions)]
    prefix = edition.session("")
    found = [key.removeprefix(prefix) for key in await scan_keys(connection, f"{prefix}*")]
    if found:
        losses.append(f"the index of sessions was lost; {len(found)} sessions were found again")
    return sorted(found)


async def last_stored_edition(connection: RedisConnection, broker: str) -> int:
    """Return the newest edition that has keys, 0 for none: used when its number is lost."""
    numbers = [0]
    for key_of in (journal_sessions_key, journal_retained_key):
        head, tail = key_of(broker, 7).split("e7:")
        pattern = re.compile(re.escape(f"{head}e") + r"(\d+)" + re.escape(f":{tail}"))
        for key in await scan_keys(connection, f"{head}e*:{tail}"):
            match = pattern.fullmatch(key)
            numbers += [] if match is None else [int(match[1])]
    return max(numbers)


async def set_aside(connection: RedisConnection, broker: str, keys: Iterable[str]) -> list[str]:
    """Copy keys that could not be read, for an operator; return the names of the copies."""
    copies = []
    for key in keys:
        copy = journal_damaged_key(broker, key)
        if await connection.ask("COPY", key, copy, "REPLACE"):
            await connection.ask("EXPIRE", copy, KEEP_SECONDS)
            copies.append(copy)
    return copies


async def scan_keys(connection: RedisConnection, pattern: str, *options: str) -> list[str]:
    """Return all keys that match a pattern, and further options of SCAN, sorted."""
    cursor, found = b"0", set()
    while True:
        cursor, keys = await connection.ask(
            "SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED_AT_ONCE, *options
        )
        found |= {key.decode() for key in keys}
        if cursor == b"0":
            return sorted(found)
