"""An edition read back as records, as if the core had written them just now."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

from broker.durability.message_bytes import message_from_bytes
from broker.durability.session_records import session_records
from broker.durability.shared_messages import SharedMessages
from broker.durability.store_commands import Edition
from broker.journal import Record, RetainedSaved
from broker.message import Message
from redis_link.wire import Wire, first_answer, pack
from redis_link.wires import Wires
from schemas.errors import JournalError

log = logging.getLogger(__name__)

# Sessions that are asked for at once: each may be as large as its queue may grow.
SESSIONS_AT_ONCE: Final = 32
FIELDS_AT_ONCE: Final = 500
PROGRESS_SESSIONS: Final = 10_000


class LoadedState:
    """What an edition holds."""

    __slots__ = ("records", "shared", "unowned")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.shared = SharedMessages()
        # Shared messages that no session waits for.
        self.unowned: set[int] = set()


async def load_edition(wires: Wires, edition: Edition) -> LoadedState:
    """Everything in an edition; nobody may write it meanwhile."""
    wire = await wires.of_key(edition.journal)
    state = LoadedState()
    messages: dict[int, Message] = {}
    async for number, packed in _fields(wire, edition.messages):
        messages[int(number)] = message_from_bytes(packed)
    clients = [name.decode() for name in await wire.ask("SMEMBERS", edition.sessions)]
    asked: deque[tuple[str, asyncio.Future[list[Any]]]] = deque()
    for done, client_id in enumerate(clients):
        if done and done % PROGRESS_SESSIONS == 0:
            log.info("durable state: %d of %d sessions read", done, len(clients))
        asked.append((client_id, wire.send(pack("HGETALL", edition.session(client_id)), 1)))
        if len(asked) >= SESSIONS_AT_ONCE:
            await _take(state, messages, *asked.popleft())
    while asked:
        await _take(state, messages, *asked.popleft())
    async for topic, packed in _fields(wire, edition.retained):
        message = message_from_bytes(packed)
        if message.topic.encode() != topic:
            raise JournalError(f"the retained message of {topic!r} is another topic's")
        state.records.append(RetainedSaved(message))
    state.unowned = {number for number in messages if number not in state.shared}
    return state


async def _take(
    state: LoadedState,
    messages: dict[int, Message],
    client_id: str,
    answers: asyncio.Future[list[Any]],
) -> None:
    flat = first_answer(await answers)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    state.records += session_records(client_id, fields, messages, state.shared)


async def _fields(wire: Wire, key: str) -> AsyncIterator[tuple[bytes, bytes]]:
    """The fields of a hash that may be large, each once."""
    seen: set[bytes] = set()
    cursor = b"0"
    while True:
        cursor, flat = await wire.ask("HSCAN", key, cursor, "COUNT", FIELDS_AT_ONCE)
        for name, value in zip(flat[::2], flat[1::2], strict=True):
            if name not in seen:
                seen.add(name)
                yield name, value
        if cursor == b"0":
            return
