"""Resolves on one world version, in a process that is started again when it ends.

What was resolved is remembered by its text here, and by its meaning in the process: the same
neighborhood again costs nothing, and one that is only written differently costs its parsing.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from typing import Any, Final

from broker.byte_cache import ByteCache
from broker.codec.reason_codes import ReasonCode
from broker.resolver_process import ResolverGoneError, ResolverProcess, start_resolver
from schemas.errors import SpapsError, WorldError
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

CACHE_BYTES: Final = 67_108_864
# Room that a remembered result takes beside its peids.
ENTRY_BYTES: Final = 1_024
RESTART_DELAY: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverLimits:
    """What one neighborhood may cost, and how many may wait at once; None: any number."""

    seconds: float = 10.0
    # Of all stages, visible or not.
    members: int | None = 100_000
    waiting: int | None = 1_000


@dataclass(slots=True)
class ResolverCounts:
    """Counted for metrics, over all versions."""

    resolved: int = 0
    reused: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class VersionResolution:
    """What a neighborhood holds on one world version (ascending, distinct).

    ``descriptor`` is JSON, also when the client wrote the compact notation.
    """

    version: int
    descriptor: str
    neighborhood_hash: str
    peids: Int64s
    warnings: tuple[str, ...] = ()


class NeighborhoodRefusedError(SpapsError):
    """A neighborhood that is not served; its text is what the client gets to read."""

    def __init__(self, reason: ReasonCode, text: str, *, lacks_references: bool = False) -> None:
        """Keep the reason code for the SUBACK, and whether no reference exists."""
        super().__init__(text)
        self.reason = reason
        self.lacks_references = lacks_references


class WorldResolver:
    """One world version; all calls come from the event loop. Made by ``load``."""

    def __init__(self, world: str, process: ResolverProcess, counts: ResolverCounts) -> None:
        self._world = world
        self._counts = counts
        self._known: ByteCache[VersionResolution] = ByteCache(CACHE_BYTES)
        self._under_way: dict[str, asyncio.Task[VersionResolution]] = {}
        self._restarting: asyncio.Task[None] | None = None
        self._stopping = False
        self._process = process
        self._watch(process)

    @classmethod
    async def load(cls, world: str, version: int | None, counts: ResolverCounts) -> WorldResolver:
        """Load a version, the newest when none is given; WorldError if it is not there."""
        return cls(world, await start_resolver(world, version), counts)

    @property
    def version(self) -> int:
        """The world version."""
        return self._process.version

    @property
    def waiting(self) -> int:
        """Neighborhoods that are being resolved."""
        return len(self._under_way)

    async def stop(self) -> None:
        """End the process; whoever waits is told."""
        self._stopping = True
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.gather(self._restarting, return_exceptions=True)
        await self._process.stop()

    async def resolve(self, descriptor: str, limits: ResolverLimits) -> VersionResolution:
        """The members; NeighborhoodRefusedError with reason code and text."""
        key = hashlib.sha256(descriptor.encode()).hexdigest()
        known = self._known.get(key)
        if known is not None:
            self._counts.reused += 1
            return known
        task = self._under_way.get(key)
        if task is None:
            if limits.waiting is not None and len(self._under_way) >= limits.waiting:
                raise NeighborhoodRefusedError(
                    ReasonCode.QUOTA_EXCEEDED, "too many neighborhoods are being resolved"
                )
            task = asyncio.create_task(self._resolve(descriptor, key, limits), name="resolve")
            self._under_way[key] = task
        else:
            self._counts.reused += 1
        # Shielded: one who gives up must not take the answer from others.
        return await asyncio.shield(task)

    async def _resolve(
        self, descriptor: str, key: str, limits: ResolverLimits
    ) -> VersionResolution:
        try:
            header, peids = await self._ask(descriptor, limits)
        finally:
            del self._under_way[key]
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
        )
        self._known.put(key, resolution, peids.nbytes + len(descriptor) + ENTRY_BYTES)
        return resolution

    async def _ask(self, descriptor: str, limits: ResolverLimits) -> tuple[dict[str, Any], Int64s]:
        try:
            return await self._process.ask(descriptor, limits.seconds, limits.members)
        except ResolverGoneError as error:
            raise NeighborhoodRefusedError(ReasonCode.UNSPECIFIED_ERROR, str(error)) from error

    def _watch(self, process: ResolverProcess) -> None:
        process.when_ended(lambda: self._ended(process))

    def _ended(self, process: ResolverProcess) -> None:
        if process is self._process and not self._stopping:
            log.error("the resolver process of version %d ended; starting another", self.version)
            self._restarting = asyncio.create_task(self._start_again(process), name="resolver")

    async def _start_again(self, ended: ResolverProcess) -> None:
        await ended.stop()
        while self._process is ended:
            try:
                self._process = await start_resolver(self._world, ended.version)
            except WorldError as error:
                log.error("the resolver cannot start: %s", error)  # noqa: TRY400 - its text is the whole story
                await asyncio.sleep(RESTART_DELAY)
            else:
                self._watch(self._process)
