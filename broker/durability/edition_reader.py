"""An edition read back as records, as if the core had written them just now.

What Redis has lost or damaged is left out and named: one session less is better than a broker
that does not start. What a later release wrote is no damage, and an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

from broker.core.journal import Record, RetainedSaved
from broker.core.message import Message
from broker.durability.lost_keys import session_names
from broker.durability.records.message_bytes import message_from_bytes
from broker.durability.records.session_records import session_records
from broker.durability.records.shared_messages import SharedMessages
from broker.durability.records.store_commands import Edition
from broker.durability.records.stored_names import StoredNames
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import (
    RedisConnection,
    RedisReplyError,
    first_answer,
    pack,
)
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import JournalError, LaterFormatError

log = logging.getLogger(__name__)

# Sessions that are asked for at once: each may be as large as its queue may grow.
SESSIONS_AT_ONCE: Final = 32
FIELDS_AT_ONCE: Final = 500
PROGRESS_SESSIONS: Final = 10_000


class LoadedState:
    """What an edition holds."""

    __slots__ = ("damaged", "losses", "names", "records", "shared", "unowned")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.shared = SharedMessages()
        self.names = StoredNames()
        # Shared messages that no session waits for.
        self.unowned: set[int] = set()
        # What could not be read, in words, and the keys that it stood in.
        self.losses: list[str] = []
        self.damaged: set[str] = set()

    def lose(self, key: str, error: JournalError) -> None:
        """Leave something out."""
        if isinstance(error, LaterFormatError):
            raise error
        self.losses.append(str(error))
        self.damaged.add(key)


async def load_edition(wires: RedisRouter, edition: Edition) -> LoadedState:
    """Everything in an edition; nobody may write it meanwhile."""
    wire = await wires.of_key(edition.journal)
    state = LoadedState()
    messages: dict[int, Message] = {}
    async for number, packed in _fields(wire, state, edition.messages):
        try:
            messages[int(number)] = message_from_bytes(packed)
        except JournalError as error:
            state.lose(edition.messages, error)
    clients = await session_names(wire, edition, state.losses)
    asked: deque[tuple[str, asyncio.Future[list[Any]]]] = deque()
    for done, client_id in enumerate(clients):
        if done and done % PROGRESS_SESSIONS == 0:
            log.info("durable state: %d of %d sessions read", done, len(clients))
        asked.append((client_id, wire.send(pack("HGETALL", edition.session(client_id)), 1)))
        if len(asked) >= SESSIONS_AT_ONCE:
            await _take(state, edition, messages, *asked.popleft())
    while asked:
        await _take(state, edition, messages, *asked.popleft())
    async for topic, packed in _fields(wire, state, edition.retained):
        try:
            message = message_from_bytes(packed)
            if message.topic.encode() != topic:
                raise JournalError(f"the retained message of {topic!r} is another topic's")  # noqa: TRY301
        except JournalError as error:
            state.lose(edition.retained, error)
            continue
        state.records.append(RetainedSaved(message))
        state.names.topics.add(message.topic)
    await _compare_counts(wire, state, edition)
    state.unowned = {number for number in messages if number not in state.shared}
    return state


async def _compare_counts(wire: RedisConnection, state: LoadedState, edition: Edition) -> None:
    """Notice keys that are gone without a trace; earlier releases did not count."""
    found = await wire.ask("HMGET", edition.journal, *edition.count_fields)
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
    wire: RedisConnection, state: LoadedState, key: str
) -> AsyncIterator[tuple[bytes, bytes]]:
    """The fields of a hash that may be large, each once; none of a key of another type."""
    seen: set[bytes] = set()
    cursor = b"0"
    while True:
        answers = await wire.send(pack("HSCAN", key, cursor, "COUNT", FIELDS_AT_ONCE), 1)
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
    """The answer; JournalError when the key holds another kind of value."""
    try:
        return first_answer(answers)
    except RedisReplyError as error:
        if is_wrong_type(error):
            raise JournalError(f"{what} is lost: its key in Redis has another type") from error
        raise
