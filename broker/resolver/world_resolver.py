"""Resolves on one world version, in a process that is started again when it ends.

What was resolved is remembered by its text here, and by its meaning in the process: the same
neighborhood again costs nothing, and one that is only written differently costs its parsing.

When the process ends, whatever it was asked is asked again: one by one, so that a neighborhood
which ends the process is separated from those that were resolved beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Final

from broker.codec.reason_codes import ReasonCode
from broker.resolver.resolve_queue import BROKER, Asker, ResolveQueue
from broker.resolver.resolver_answers import (
    ByteCache,
    NeighborhoodRefusedError,
    ResolverCounts,
    ResolverLimits,
    VersionResolution,
    away_error,
)
from broker.resolver.resolver_process import ResolverProcess, ResolverSupervisor

CACHE_BYTES: Final = 67_108_864
# Room that a remembered result takes beside its peids.
ENTRY_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """Somebody who waits; ``came`` is set when the turn has come."""

    asker: Asker
    came: asyncio.Future[None]


class WorldResolver:
    """One world version; all calls come from the event loop. Made by ``load``."""

    def __init__(self, world: str, process: ResolverProcess, counts: ResolverCounts) -> None:
        self._counts = counts
        self._known: ByteCache[VersionResolution] = ByteCache(CACHE_BYTES)
        self._queue: ResolveQueue[_Turn] = ResolveQueue()
        # By text and limits: what one may not have, another may.
        self._under_way: dict[tuple[str, ResolverLimits], asyncio.Task[VersionResolution]] = {}
        self._supervisor = ResolverSupervisor(world, process, counts)

    @classmethod
    async def load(cls, world: str, version: int | None, counts: ResolverCounts) -> WorldResolver:
        """Load a version, the newest when none is given; WorldError if it is not there."""
        return cls(world, await ResolverProcess.start(world, version), counts)

    @property
    def version(self) -> int:
        """The world version."""
        return self._supervisor.process.version

    @property
    def world_id(self) -> str:
        """What tells the world from every other."""
        return self._supervisor.process.world_id

    @property
    def waiting(self) -> int:
        """Neighborhoods that are being resolved or wait for it."""
        return len(self._queue)

    @property
    def is_running(self) -> bool:
        """Whether the process can answer now."""
        return self._supervisor.process.is_running

    async def stop(self) -> None:
        """End the process; whoever waits gets an error."""
        await self._supervisor.stop()
        for turn in self._queue.take_all():
            if not turn.came.done():
                turn.came.set_exception(away_error())

    async def resolve(
        self, descriptor: str, limits: ResolverLimits, asker: Asker = BROKER
    ) -> VersionResolution:
        """Return the members; NeighborhoodRefusedError with reason code and text."""
        key = hashlib.sha256(descriptor.encode()).hexdigest()
        known = self._remembered(key, limits)
        if known is None:
            await self._turn(asker, limits)
            try:
                known = self._remembered(key, limits)
                if known is None:
                    return await self._resolved(descriptor, key, limits)
            finally:
                self._queue.end(asker)
                self._begin_more()
        self._counts.reused += 1
        return known

    def _remembered(self, key: str, limits: ResolverLimits) -> VersionResolution | None:
        """Return what was resolved before, unless it is more than the limits allow.

        What is refused must not depend on who asked before: the process refuses it then.
        """
        known = self._known.get(key)
        most = limits.members
        if known is None or (most is not None and known.members_of_stages > most):
            return None
        return known

    async def _turn(self, asker: Asker, limits: ResolverLimits) -> None:
        """Wait until the asker's turn has come."""
        queue = self._queue
        if limits.waiting is not None and len(queue) >= limits.waiting:
            raise self._too_many("the broker")
        most = limits.waiting_of_owner
        if most is not None and queue.count_of(asker.owner) >= most:
            raise self._too_many("this user or address")
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.add(asker, _Turn(asker, came))
        self._begin_more()
        try:
            await came
        except asyncio.CancelledError:
            # It is skipped when its turn comes; if it has come, the next one follows.
            if came.done() and not came.cancelled():
                queue.end(asker)
                self._begin_more()
            raise

    def _begin_more(self) -> None:
        while (turn := self._queue.next()) is not None:
            if turn.came.done():
                # Who asked has gone.
                self._queue.end(turn.asker)
            else:
                turn.came.set_result(None)

    def _too_many(self, whose: str) -> NeighborhoodRefusedError:
        self._counts.crowded += 1
        text = f"too many neighborhoods of {whose} are being resolved, try later"
        return NeighborhoodRefusedError(ReasonCode.QUOTA_EXCEEDED, text)

    async def _resolved(
        self, descriptor: str, key: str, limits: ResolverLimits
    ) -> VersionResolution:
        """Ask, or wait for the answer that another one waits for."""
        task = self._under_way.get((key, limits))
        if task is None:
            task = asyncio.create_task(self._resolve(descriptor, key, limits), name="resolve")
            self._under_way[key, limits] = task
        else:
            self._counts.reused += 1
        # Shielded: one who gives up must not take the answer from others.
        return await asyncio.shield(task)

    async def _resolve(
        self, descriptor: str, key: str, limits: ResolverLimits
    ) -> VersionResolution:
        try:
            header, peids = await self._supervisor.ask(descriptor, limits)
        finally:
            del self._under_way[key, limits]
        if "reason" in header:
            self._counts.refused += 1
            raise NeighborhoodRefusedError(
                ReasonCode(header["reason"]),
                header["text"],
                lacks_references=header.get("lacks_references", False),
            )
        self._counts.resolved += 1
        resolution = VersionResolution(
            self.version,
            header.get("json", descriptor),
            header["hash"],
            peids,
            tuple(header["warnings"]),
            header["members"],
        )
        self._known.put(key, resolution, peids.nbytes + len(descriptor) + ENTRY_BYTES)
        return resolution
