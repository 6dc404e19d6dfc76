"""Editions: a fresh one written beside the old and switched to at once, old ones removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from broker.core.journal import Record
from broker.durability.lost_keys import remove_sessions_of
from broker.durability.records.changes import Changes
from broker.durability.records.record_folding import fold
from broker.durability.records.store_commands import Edition, StepCommands
from broker.durability.step_store import StepStore, writer_for
from redis_link.connection.redis_connection import first_answer, pack
from redis_link.connection.redis_router import RedisRouter
from schemas.redis_keys import journal_key

# Fields of the journal's hash.
EDITION_FIELD: Final = "edition"
LAST_EDITION_FIELD: Final = "last_edition"
# + number: an edition that is to be removed; also one that is being written, until it is whole.
OLD_PREFIX: Final = "old:"

# What one step of a fresh edition changes: more would keep others from Redis for too long.
RECORDS_IN_STEP: Final = 2_000
KEYS_AT_ONCE: Final = 500
STEPS_IN_RENEWAL: Final = 50


class TakePending(Protocol):
    """Gives what was recorded since it was last asked, if it is more than a number of fields."""

    def __call__(self, beyond: int) -> Changes | None:
        """The changes, which from now on are the caller's; None: not so many yet."""


async def write_fresh(
    store: StepStore, parts: Iterable[Sequence[Record]], take_pending: TakePending
) -> None:
    """Write the whole state as a new edition and switch to it.

    Each part is taken as it is at its moment, and is stored before anything that was recorded
    after that moment. What is recorded meanwhile is stored in between when it becomes much,
    and the rest together with the switch.
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
        meanwhile = take_pending(beyond=RECORDS_IN_STEP)
        if meanwhile is not None:
            await store.run(fresh.commands(meanwhile))
    switch = fresh.commands(take_pending(beyond=-1) or Changes())
    switch.add("HSET", old.journal, [EDITION_FIELD, number, f"{OLD_PREFIX}{old.number}", ""])
    switch.add("HDEL", old.journal, [f"{OLD_PREFIX}{number}"])
    await store.run(switch)
    store.writer = writer_for(fresh.edition, fresh.shared, fresh.names)


def _steps(parts: Iterable[Sequence[Record]]) -> Iterator[Changes]:
    """The parts, several of them in one step when they are small; all of one moment."""
    step = Changes()
    for part in parts:
        fold(step, part)
        if step.records >= RECORDS_IN_STEP:
            yield step
            step = Changes()
    yield step


async def old_editions(wires: RedisRouter, broker: str) -> list[Edition]:
    """The editions that are not in force; one that is being written counts among them."""
    names = await wires.ask(journal_key(broker), "HKEYS", journal_key(broker))
    texts = [name.decode() for name in names]
    return [
        Edition(broker, int(text.removeprefix(OLD_PREFIX)))
        for text in texts
        if text.startswith(OLD_PREFIX)
    ]


async def remove_edition(wires: RedisRouter, edition: Edition) -> None:
    """Unlink sessions with their names in the index, some at a time, then the rest."""
    wire = await wires.of_key(edition.journal)
    if await wire.ask("TYPE", edition.sessions) != b"set":
        await remove_sessions_of(wire, edition)
        await wire.ask("UNLINK", edition.sessions)
    while clients := await wire.ask("SRANDMEMBER", edition.sessions, KEYS_AT_ONCE):
        keys = [edition.session(client_id.decode()) for client_id in clients]
        packed = pack("UNLINK", *keys) + pack("SREM", edition.sessions, *clients)
        first_answer(await wire.send(packed, 2))
    await wire.ask("UNLINK", edition.sessions, edition.retained, edition.messages)
    old = f"{OLD_PREFIX}{edition.number}"
    await wire.ask("HDEL", edition.journal, old, *edition.count_fields)
