"""The journal in Redis: stores records, or keeps changes in memory while Redis is away.

A save is one step in Redis and returns when it is stored. A step that fails is tried again for
some seconds, while acknowledgements wait. Then Redis counts as away: saves return at once and are
counted as not durable, their changes are kept in memory up to a limit, and a task tries to
reconnect. It then stores these changes as one step. If they became too many, or Redis has lost
data, it writes the whole state as a new edition (docs/decisions/0081).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from broker.core.broker_core import Core
from broker.core.journal import Record
from broker.durability.durable_state import DurableState
from broker.durability.ownership import RENEWALS_IN_LEASE
from broker.durability.records.changes import Changes, fold
from broker.durability.step_store import StateLostError, StateTakenError
from broker.ports import JournalFigures, JournalLimits, JournalState
from redis_link.connection.url import RedisUrl
from schemas.errors import JournalError, RedisLinkError

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
LOSSES_LOGGED: Final = 20


class RedisJournal:
    """A ``JournalStore`` (broker/ports.py). All calls come from the event loop."""

    is_durable = True

    def __init__(
        self, url: str | RedisUrl, broker: str, limits: JournalLimits | None = None
    ) -> None:
        self.limits = limits or JournalLimits()
        self.figures = JournalFigures()
        self.state = JournalState.PRESENT
        self._durable = DurableState(url, broker, self.limits)
        self._core: Core | None = None
        self._is_loaded = False
        self._pending = Changes()
        # Redis is not in the state that the pending changes start from: store the whole state.
        self._needs_all = False
        # Redis has lost our ownership, too.
        self._is_lost = False
        # The whole state was stored again after losses at the start.
        self._is_anew = False
        # Changes were dropped because they were too many.
        self._has_dropped = False
        # Held so that a failed step is merged into the pending changes before the next step.
        self._catching_up = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def owner_token(self) -> str:
        """The token of this process as the owner of the durable state."""
        return self._durable.owner_token

    def follow(self, core: Core) -> None:
        """Set the core whose whole state is stored when Redis comes back without it."""
        self._core = core

    async def load(self) -> Sequence[Record]:
        """Claim the durable state and read it; RedisLinkError or JournalError on failure."""
        await self._durable.claim()
        self._start(self._keep_lease(), "journal lease")
        records = await self._durable.load()
        self._is_loaded = True
        losses = self._durable.losses
        for line in losses[:LOSSES_LOGGED]:
            log.error("the durable state was damaged: %s", line)
        if losses:
            log.error("%d losses in Redis; the rest is served and stored again", len(losses))
        return records

    @property
    def losses(self) -> Sequence[str]:
        """Descriptions of what could not be read at the start."""
        return self._durable.losses

    async def save(self, records: Sequence[Record]) -> None:
        """Store records in one step; never raises."""
        if self.state is not JournalState.TAKEN:
            fold(self._pending, records)
        if self.state is JournalState.PRESENT and await self._store_patiently():
            self.figures.stored_records += len(records)
            return
        self.figures.not_durable_records += len(records)
        if self._pending.is_beyond(self.limits.waiting_changes):
            self._needs_all = self._has_dropped = True
            self._pending = Changes()

    async def close(self) -> None:
        """Store what is left, if Redis answers, and release the ownership."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.state is not JournalState.TAKEN:
            try:
                await self._catch_up()
                await self._durable.release()
            except (RedisLinkError, JournalError) as error:
                if self._is_loaded:
                    log.error("stopped without storing the last changes: %s", error)  # noqa: TRY400 - the text is enough
        await self._durable.close()

    # --- while Redis answers

    async def _store_patiently(self) -> bool:
        """Store the pending changes; False when Redis did not answer in time, or is not ours."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.limits.patience_seconds
        pause = FIRST_PAUSE
        while True:
            try:
                await self._catch_up()
            except (StateLostError, StateTakenError) as error:
                self._go_away(error)
                return False
            except RedisLinkError as error:
                if loop.time() + pause > deadline or self._too_many_wait():
                    self._go_away(error)
                    return False
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return True

    def _too_many_wait(self) -> bool:
        core = self._core
        return core is not None and len(core.journal.records) > self.limits.waiting_records

    async def _catch_up(self) -> None:
        """Store everything that Redis lacks, or raise."""
        async with self._catching_up:
            if self._needs_all:
                await self._store_everything()
            elif self._pending:
                step, self._pending = self._pending, Changes()
                try:
                    await self._durable.store(step)
                except BaseException:
                    self._pending.put_behind(step)
                    raise
                self.figures.steps += 1

    async def _keep_lease(self) -> None:
        """Check Redis regularly, also when nothing is to be stored.

        A thread renews the lease too, however busy the event loop is.
        """
        loop = asyncio.get_running_loop()
        good_at = loop.time()
        while True:
            await asyncio.sleep(self.limits.lease_seconds / RENEWALS_IN_LEASE)
            self._durable.beat()
            if self.state is not JournalState.PRESENT:
                good_at = loop.time()
                continue
            try:
                await self._durable.renew_lease()
                good_at = loop.time()
                if self._durable.losses and not self._is_anew:
                    # Not earlier: a broker that fails to start must not store its state.
                    self._is_anew = self._needs_all = self._core is not None
                if self._needs_all:
                    await self._catch_up()
                elif not self._pending and not self._catching_up.locked():
                    await self._durable.look()
            except (StateLostError, StateTakenError) as error:
                self._go_away(error)
            except RedisLinkError as error:
                if loop.time() - good_at > self.limits.patience_seconds:
                    self._go_away(error)

    # --- while Redis is away

    def _go_away(self, why: RedisLinkError | JournalError) -> None:
        if self.state is JournalState.TAKEN:
            return
        if isinstance(why, JournalError):
            self.state = JournalState.TAKEN
            self._pending = Changes()
            log.critical("nothing is durable any more: %s", why)
            return
        if isinstance(why, StateLostError):
            self._is_lost = self._needs_all = True
        if self.state is JournalState.PRESENT:
            self.state = JournalState.AWAY
            self.figures.times_away += 1
            log.error("changes are not durable from now on: %s", why)
            self._start(self._come_back(), "journal comes back")

    async def _come_back(self) -> None:
        """Try until Redis has the whole state again."""
        before = self.figures.not_durable_records
        pause = FIRST_PAUSE
        while self.state is JournalState.AWAY:
            try:
                if self._is_lost:
                    await self._durable.claim()
                    self._is_lost = False
                await self._durable.renew_lease()
                await self._catch_up()
                self.state = JournalState.PRESENT
            except (StateLostError, JournalError) as error:
                self._go_away(error)
            except RedisLinkError as error:
                log.debug("Redis is still away: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        if self.state is JournalState.PRESENT:
            missed = self.figures.not_durable_records - before
            log.warning("durable again, with the %d records made meanwhile", missed)
            # Store what was recorded during the last step.
            await self._store_patiently()

    async def _store_everything(self) -> None:
        if self._core is None:
            raise RuntimeError("the core must be followed before anything is saved")
        self._has_dropped = False
        # The core's state includes all changes recorded before.
        self._take_pending(-1)
        await self._durable.store_afresh(self._core.durable_parts(), self._take_pending)
        self._needs_all = False
        self.figures.fresh_editions += 1

    def _take_pending(self, beyond: int) -> Changes | None:
        if self._has_dropped:
            raise RedisLinkError("more was recorded than could be stored in the same time")
        if not self._pending.is_beyond(beyond):
            return None
        taken, self._pending = self._pending, Changes()
        # A part that is stored later may include what is recorded from now on.
        self._pending.is_repeated = True
        return taken

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
