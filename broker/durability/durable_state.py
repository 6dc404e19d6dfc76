"""The durable state of one broker in Redis: claim, load, and change it step by step.

Every method succeeds or raises. What to do when Redis does not answer is decided by the journal.
Other brokers on the same Redis share no clients, sessions or messages with this one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from broker.core.journal import Record
from broker.durability.edition_reader import (
    last_stored_edition,
    load_edition,
    scan_keys,
    set_aside,
)
from broker.durability.ownership import Lease, Ownership
from broker.durability.records.changes import Changes
from broker.durability.records.store_commands import Edition
from broker.durability.step_store import (
    EDITION_FIELD,
    LAST_EDITION_FIELD,
    StepStore,
    TakePending,
    old_editions,
    remove_edition,
    write_fresh,
    writer_for,
)
from broker.ports import JournalLimits
from redis_link.connection.redis_router import RedisRouter
from redis_link.connection.url import RedisUrl
from schemas.errors import JournalError, RedisLinkError
from schemas.redis_keys import (
    broker_lease_key,
    broker_subscriptions_key,
    brokers_key,
    journal_key,
)

log = logging.getLogger(__name__)


class DurableState:
    """Runs one step at a time."""

    def __init__(self, url: str | RedisUrl, broker: str, limits: JournalLimits) -> None:
        self._broker = broker
        self._router = RedisRouter(url, answer_seconds=limits.answer_seconds)
        self._ownership = Ownership(
            self._router, broker, lease_seconds=limits.lease_seconds,
            stuck_seconds=limits.stuck_seconds, answer_seconds=limits.answer_seconds,
        )  # fmt: skip
        self._steps = StepStore(self._router, self._ownership, broker)
        self._one_step = asyncio.Lock()
        self._removing: asyncio.Task[None] | None = None
        # Descriptions of what could not be read.
        self.losses: list[str] = []

    @property
    def owner_token(self) -> str:
        """The token of this process as the owner."""
        return self._ownership.owner_token

    async def claim(self) -> None:
        """Become the owner, and continue from the state in Redis."""
        async with self._one_step:
            await self._ownership.claim()
            key = journal_key(self._broker)
            flat = await self._router.ask(key, "HGETALL", key)
            found = dict(zip(flat[::2], flat[1::2], strict=True))
            self._steps.begin(
                sequence=int(found[b"sequence"]),
                last_edition=int(found[LAST_EDITION_FIELD.encode()]),
                writer=writer_for(Edition(self._broker, int(found[EDITION_FIELD.encode()]))),
            )

    async def load(self) -> Sequence[Record]:
        """Claim the state and return all stored records; what was lost is listed in ``losses``."""
        edition = await self._find_edition()
        loaded = await load_edition(self._router, edition)
        self._steps.writer = writer_for(edition, loaded.shared, loaded.names)
        self.losses += loaded.losses
        if loaded.damaged:
            connection = await self._router.of_key(edition.journal)
            copies = await set_aside(connection, self._broker, sorted(loaded.damaged))
            if copies:
                log.error("unreadable data is kept for 30 days as %s", ", ".join(copies))
        if loaded.unowned:
            cleaning = Changes()
            cleaning.freed = loaded.unowned
            await self.store(cleaning)
        await self._remove_old_editions()
        return loaded.records

    async def _find_edition(self) -> Edition:
        """Return the edition in force, or the newest one when its number was lost."""
        edition = self._steps.writer.edition
        connection = await self._router.of_key(edition.journal)
        has_keys = await connection.ask("EXISTS", edition.sessions, edition.retained)
        if edition.number or (has_keys and self._steps.has_begun):
            return edition
        number = await last_stored_edition(connection, self._broker)
        if not number:
            return edition
        self.losses.append(f"which edition is in force was lost; edition {number} is used")
        numbers = (EDITION_FIELD, number, LAST_EDITION_FIELD, number)
        await connection.ask("HSET", edition.journal, *numbers)
        self._steps.last_edition = max(self._steps.last_edition, number)
        return Edition(self._broker, number)

    async def look(self) -> None:
        """Raise StateLostError when Redis has lost some of the keys."""
        async with self._one_step:
            await self._steps.look()

    async def store(self, changes: Changes) -> None:
        """Store changes in one step; after an error Redis may have them or not."""
        async with self._one_step:
            await self._steps.store(changes)

    async def store_afresh(
        self, parts: Iterable[Sequence[Record]], take_pending: TakePending
    ) -> None:
        """Replace the stored state by the parts and what is recorded meanwhile."""
        async with self._one_step:
            await write_fresh(self._steps, parts, take_pending)
            await self._remove_old_editions()

    async def renew_lease(self) -> None:
        """Renew the lease; raises when Redis lost our steps or has another owner."""
        await self._steps.renew_lease()

    async def release(self) -> None:
        """Release the lease, so that another process can start at once."""
        await self._ownership.release()

    def beat(self) -> None:
        """Record that the event loop runs: the lease is renewed only while it does."""
        self._ownership.beat()

    async def close(self) -> None:
        """Close the connections; the lease expires unless it was released."""
        await self._ownership.stop_renewing()
        if self._removing is not None:
            self._removing.cancel()
        self._router.close()

    async def _remove_old_editions(self) -> None:
        """Start to remove editions that are not in force; later ones are not touched."""
        editions = await old_editions(self._router, self._broker)
        if editions:
            before, self._removing = self._removing, None
            if before is not None:
                before.cancel()
            work = self._remove(editions)
            self._removing = asyncio.create_task(work, name="old editions")

    async def _remove(self, editions: list[Edition]) -> None:
        try:
            for edition in editions:
                await remove_edition(self._router, edition)
        except RedisLinkError as error:
            log.warning("an old edition of the durable state is not removed yet: %s", error)


async def warn_of_other_brokers(router: RedisRouter, broker: str, owner_token: str) -> None:
    """Register this broker, and warn when brokers of other names run on this Redis."""
    key = brokers_key()
    if await router.ask(key, "TYPE", key) not in {b"hash", b"none"}:
        await router.ask(key, "UNLINK", key)
    await router.ask(key, "HSET", key, broker, owner_token)
    for name in sorted(one.decode() for one in await router.ask(key, "HKEYS", key)):
        text = await _lease(router, name) if name != broker else None
        if text is not None:
            log.warning(
                "broker %r runs on this Redis too (%s): both follow the same generations, and "
                "share no clients, sessions or messages",
                name, _holder(text),
            )  # fmt: skip


async def other_broker_sets(router: RedisRouter, broker: str) -> list[str]:
    """Return the keys of the subId sets of brokers with other names."""
    own = broker_subscriptions_key(broker)
    connection = await router.of_key(own)
    keys = await scan_keys(connection, broker_subscriptions_key("*"), "TYPE", "set")
    return [key for key in keys if key != own]


async def _lease(router: RedisRouter, broker: str) -> bytes | None:
    key = broker_lease_key(broker)
    if await router.ask(key, "TYPE", key) != b"string":
        return None
    text: bytes | None = await router.ask(key, "GET", key)
    return text


def _holder(text: bytes) -> str:
    try:
        lease = Lease.from_json(text)
    except JournalError:
        return "its lease is not understood"
    return f"process {lease.pid} on {lease.host}"
