"""Stores numbered steps in Redis: each as a whole, in order, and never after a later one.

A new edition is written beside the old one, then switched to in one step; old ones are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from broker.core.journal import Record
from broker.durability.edition_reader import is_whole, scan_keys
from broker.durability.ownership import Ownership
from broker.durability.records.changes import Changes, fold
from broker.durability.records.edition_contents import (
    QueueEntryEncoder,
    SharedMessages,
    StoredNames,
)
from broker.durability.records.store_commands import Edition, StepCommands, StepWriter
from broker.durability.scripts import DONE, STORE, TAKEN
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import RedisReplyError, Word, first_answer, pack
from redis_link.connection.redis_router import RedisRouter, run_script
from schemas.errors import JournalError, RedisLinkError
from schemas.redis_keys import journal_key


class StateLostError(RedisLinkError):
    """Redis lacks what we stored: it was emptied, or an older state was restored."""


class StateTakenError(JournalError):
    """Another process owns the durable state now."""


class StepStore:
    """The number of the last step, and the edition that steps are written to."""

    def __init__(self, router: RedisRouter, ownership: Ownership, broker: str) -> None:
        self._router = router
        self._ownership = ownership
        self._confirmed = 0
        self._tried = 0
        self.last_edition = 0
        self.writer = writer_for(Edition(broker, 0))

    def begin(self, sequence: int, last_edition: int, writer: StepWriter) -> None:
        """Continue from the state in Redis."""
        self._confirmed = self._tried = sequence
        # In a Redis that was emptied the numbers start again, ours continue.
        self.last_edition = max(self.last_edition, last_edition)
        self.writer = writer

    @property
    def has_begun(self) -> bool:
        """Whether Redis has steps of this process or an earlier one."""
        return self._confirmed > 0

    async def store(self, changes: Changes) -> None:
        """Store changes; after an error Redis may have them or not."""
        commands = self.writer.commands(changes)
        if commands.words:
            await self.run(commands)

    async def run(self, commands: StepCommands) -> None:
        """Run commands as one step."""
        self._tried += 1
        words: list[Word] = [
            self._ownership.owner_token,
            self._confirmed,
            self._tried,
            *commands.words,
        ]
        try:
            self._judge(await run_script(self._router, STORE, commands.keys, words))
        except RedisReplyError as error:
            # Some commands may have run: the whole state must be written again.
            if is_wrong_type(error):
                raise StateLostError("a key of the durable state has another type now") from error
            raise
        self._confirmed = self._tried

    async def renew_lease(self) -> None:
        """Renew the lease; raises when Redis lost our steps or has another owner."""
        try:
            self._judge(await self._ownership.renew(self._confirmed))
        except RedisReplyError as error:
            if is_wrong_type(error):
                raise StateLostError("the head of the durable state has another type") from error
            raise

    async def look(self) -> None:
        """Raise StateLostError when keys of the edition are gone; checks some sessions in turn."""
        edition = self.writer.edition
        connection = await self._router.of_key(edition.journal)
        if not await is_whole(connection, edition, self.writer.names, self.writer.shared):
            raise StateLostError("Redis has lost keys of the durable state")

    def _judge(self, answer: bytes) -> None:
        if answer == DONE:
            return
        if answer == TAKEN:
            raise StateTakenError("another process has taken over the durable state")
        raise StateLostError("Redis does not have the durable state that was stored")


def writer_for(
    edition: Edition,
    shared: SharedMessages | None = None,
    names: StoredNames | None = None,
    *,
    shares_all: bool = False,
) -> StepWriter:
    """Return a writer for an edition, with its known contents."""
    known = SharedMessages() if shared is None else shared
    return StepWriter(edition, known, QueueEntryEncoder(known, shares_all=shares_all), names)


# Fields of the hash of the journal.
EDITION_FIELD: Final = "edition"
LAST_EDITION_FIELD: Final = "last_edition"
# + number: an edition to be removed; also one that is being written, until it is complete.
OLD_PREFIX: Final = "old:"

# Changes in one step of a new edition: more would block other clients of Redis for too long.
RECORDS_IN_STEP: Final = 2_000
KEYS_AT_ONCE: Final = 500
STEPS_IN_RENEWAL: Final = 50


# Returns what was recorded since the last call, which the caller owns then; None when it changes
# no more than a number of fields.
TakePending: TypeAlias = Callable[[int], Changes | None]


async def write_fresh(
    store: StepStore, parts: Iterable[Sequence[Record]], take_pending: TakePending
) -> None:
    """Write the whole state as a new edition and switch to it.

    Each part is a copy at one moment, and is stored before anything that was recorded after that
    moment. What is recorded meanwhile is stored in between when it is much, and the rest together
    with the switch.
    """
    old = store.writer.edition
    number = store.last_edition = store.last_edition + 1
    opening = StepCommands(old)
    opening.add("HSET", old.journal, [LAST_EDITION_FIELD, number, f"{OLD_PREFIX}{number}", ""])
    await store.run(opening)
    fresh = writer_for(Edition(old.broker, number), shares_all=True)
    for done, step in enumerate(_steps(parts)):
        await store.run(fresh.commands(step))
        if done % STEPS_IN_RENEWAL == 0:
            await store.renew_lease()
        meanwhile = take_pending(RECORDS_IN_STEP)
        if meanwhile is not None:
            await store.run(fresh.commands(meanwhile))
    switch = fresh.commands(take_pending(-1) or Changes())
    switch.add("HSET", old.journal, [EDITION_FIELD, number, f"{OLD_PREFIX}{old.number}", ""])
    switch.add("HDEL", old.journal, [f"{OLD_PREFIX}{number}"])
    await store.run(switch)
    store.writer = writer_for(fresh.edition, fresh.shared, fresh.names)


def _steps(parts: Iterable[Sequence[Record]]) -> Iterator[Changes]:
    """Yield the parts as changes; small parts are joined into one step."""
    step = Changes()
    for part in parts:
        fold(step, part)
        if step.records >= RECORDS_IN_STEP:
            yield step
            step = Changes()
    yield step


async def old_editions(router: RedisRouter, broker: str) -> list[Edition]:
    """Return the editions that are not in force, including one that is being written."""
    names = await router.ask(journal_key(broker), "HKEYS", journal_key(broker))
    texts = [name.decode() for name in names]
    return [
        Edition(broker, int(text.removeprefix(OLD_PREFIX)))
        for text in texts
        if text.startswith(OLD_PREFIX)
    ]


async def remove_edition(router: RedisRouter, edition: Edition) -> None:
    """Unlink sessions and their index entries, some at a time, then the rest."""
    connection = await router.of_key(edition.journal)
    if await connection.ask("TYPE", edition.sessions) != b"set":
        # The index is lost.
        for key in await scan_keys(connection, edition.session("*")):
            await connection.ask("UNLINK", key)
        await connection.ask("UNLINK", edition.sessions)
    while clients := await connection.ask("SRANDMEMBER", edition.sessions, KEYS_AT_ONCE):
        keys = [edition.session(client_id.decode()) for client_id in clients]
        packed = pack("UNLINK", *keys) + pack("SREM", edition.sessions, *clients)
        first_answer(await connection.send(packed, 2))
    await connection.ask("UNLINK", edition.sessions, edition.retained, edition.messages)
    old = f"{OLD_PREFIX}{edition.number}"
    await connection.ask("HDEL", edition.journal, old, *edition.count_fields)
