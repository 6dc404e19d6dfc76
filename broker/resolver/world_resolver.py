"""Resolves on one world version, in a process that is restarted when it ends.

Results are cached by text here, and by meaning in the process: the same neighborhood again costs
nothing, and one that is only written differently costs its parsing.

When the process ends, its open requests are sent again, one by one, so that a neighborhood that
ends the process is separated from those that were resolved at the same time.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import Any, Final

from broker.codec.reason_codes import ReasonCode
from broker.resolver.resolver_process import ResolverProcess
from broker.resolver.resolver_requests import (
    BROKER,
    Asker,
    ByteCache,
    NeighborhoodRefusedError,
    ResolveQueue,
    ResolverCounts,
    ResolverLimits,
    VersionResolution,
    away_error,
)
from broker.resolver.resolver_supervisor import ResolverSupervisor
from spatial_udfs.exact.stage_findings import StageFinding

CACHE_BYTES: Final = 67_108_864
# Bytes that a cached result takes in addition to its peids.
ENTRY_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A waiting request; ``came`` is set when its turn has come."""

    asker: Asker
    came: asyncio.Future[None]


class WorldResolver:
    """One world version, made by ``load``; all calls come from the event loop."""

    def __init__(self, world: str, process: ResolverProcess, counts: ResolverCounts) -> None:
        self._counts = counts
        self._known: ByteCache[VersionResolution] = ByteCache(CACHE_BYTES)
        self._queue: ResolveQueue[_Turn] = ResolveQueue()
        # By text and limits: a result may be refused for one client and not for another.
        self._under_way: dict[tuple[str, ResolverLimits], asyncio.Task[VersionResolution]] = {}
        self._supervisor = ResolverSupervisor(world, process, counts)

    @classmethod
    async def load(cls, world: str, version: int | None, counts: ResolverCounts) -> WorldResolver:
        """Load a version, by default the newest; WorldError if it does not exist."""
        return cls(world, await ResolverProcess.start(world, version), counts)

    @property
    def version(self) -> int:
        """The world version."""
        return self._supervisor.process.version

    @property
    def world_id(self) -> str:
        """The identifier of the world."""
        return self._supervisor.process.world_id

    def knows(self, peid: int) -> bool:
        """Return whether the world version has this entity."""
        return peid in self._supervisor.process.peids

    @property
    def waiting(self) -> int:
        """Number of neighborhoods that are being resolved or wait."""
        return len(self._queue)

    @property
    def is_running(self) -> bool:
        """Whether the process can answer now."""
        return self._supervisor.process.is_running

    async def stop(self) -> None:
        """End the process; requests that wait get an error."""
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

    async def find(
        self, descriptor: str, peid: int, limits: ResolverLimits, asker: Asker
    ) -> tuple[StageFinding, ...]:
        """Return what each stage has to do with an entity; errors as ``resolve``."""
        await self._turn(asker, limits)
        try:
            header, _ = await self._supervisor.ask(descriptor, limits, peid)
        finally:
            self._queue.end(asker)
            self._begin_more()
        if "reason" in header:
            raise _refusal_in(header)
        return tuple(StageFinding(**one) for one in header["findings"])

    def _remembered(self, key: str, limits: ResolverLimits) -> VersionResolution | None:
        """Return a cached result, unless it exceeds the limits.

        A refusal must not depend on earlier requests: then the process refuses it.
        """
        known = self._known.get(key)
        most = limits.members
        if known is None or (most is not None and known.members_of_stages > most):
            return None
        return known

    async def _turn(self, asker: Asker, limits: ResolverLimits) -> None:
        """Wait for the turn of the asker."""
        queue = self._queue
        if limits.waiting is not None and len(queue) >= limits.waiting:
            # Not this client's quota: the resolver is busy with others.
            raise self._too_many(ReasonCode.UNSPECIFIED_ERROR, "the broker")
        most = limits.waiting_of_owner
        if most is not None and queue.count_of(asker.owner) >= most:
            raise self._too_many(ReasonCode.QUOTA_EXCEEDED, "this user or address")
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.add(asker, _Turn(asker, came))
        self._begin_more()
        try:
            await came
        except asyncio.CancelledError:
            # Skipped when its turn comes; if its turn has come, the next one starts.
            if came.done() and not came.cancelled():
                queue.end(asker)
                self._begin_more()
            raise

    def _begin_more(self) -> None:
        while (turn := self._queue.next()) is not None:
            if turn.came.done():
                # The asker was cancelled.
                self._queue.end(turn.asker)
            else:
                turn.came.set_result(None)

    def _too_many(self, reason: ReasonCode, whose: str) -> NeighborhoodRefusedError:
        self._counts.crowded += 1
        text = f"too many neighborhoods of {whose} are being resolved, try later"
        return NeighborhoodRefusedError(reason, text)

    async def _resolved(
        self, descriptor: str, key: str, limits: ResolverLimits
    ) -> VersionResolution:
        """Ask the process, or wait for the same request of another client."""
        task = self._under_way.get((key, limits))
        if task is None:
            task = asyncio.create_task(self._resolve(descriptor, key, limits), name="resolve")
            self._under_way[key, limits] = task
        else:
            self._counts.reused += 1
        # Shielded: a caller that is cancelled must not cancel the answer of others.
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
            raise _refusal_in(header)
        self._counts.resolved += 1
        resolution = VersionResolution(
            self.version,
            header.get("json", descriptor),
            header["hash"],
            peids,
            tuple(header["warnings"]),
            header["members"],
            is_rewritten=header["rewritten"],
        )
        self._known.put(key, resolution, peids.nbytes + len(descriptor) + ENTRY_BYTES)
        return resolution


def _refusal_in(header: dict[str, Any]) -> NeighborhoodRefusedError:
    """Return the refusal that an answer of the process stands for."""
    return NeighborhoodRefusedError(
        ReasonCode(header["reason"]),
        header["text"],
        lacks_references=header.get("lacks_references", False),
    )
