"""A journal that stores random changes in a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from broker.durability.redis_journal import RedisJournal
from broker.ports import JournalLimits
from tests.servers.redis_server import RedisServer
from tests.strategies.journal import JournalModel, RandomCore

BROKER = "ours"
# With the default, a killed Redis may lack the last second.
NOTHING_IS_LOST = ("--appendonly", "yes", "--appendfsync", "always")
LIMITS = JournalLimits(answer_seconds=0.5, patience_seconds=1.0, lease_seconds=2.0)


@asynccontextmanager
async def opened(
    server: RedisServer, core: JournalModel, limits: JournalLimits = LIMITS
) -> AsyncIterator[RedisJournal]:
    """A journal that follows the core."""
    journal = RedisJournal(server.url, BROKER, limits)
    await journal.load()
    journal.follow(core)
    try:
        yield journal
    finally:
        await journal.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait on the event loop; the journal's tasks run meanwhile."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the journal tells nobody
            await asyncio.sleep(0.01)


async def act(core: RandomCore, journal: RedisJournal, steps: int = 30) -> None:
    core.act(steps)
    await journal.save(core.take())


async def assert_stored(server: RedisServer, core: JournalModel) -> None:
    """A fresh process finds what the core has."""
    async with opened(server, JournalModel()) as other:
        found = await other._durable.load()
    assert JournalModel(found).content() == core.content()
