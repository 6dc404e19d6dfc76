"""The live resolver: neighborhoods of new subscriptions, off the event loop.

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
    """What one neighborhood may cost, and how many may wait at once."""

    seconds: float = 10.0
    # Of all stages, visible or not.
    members: int = 100_000
    waiting: int = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class LiveResolution:
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

    def __init__(self, reason: ReasonCode, text: str) -> None:
        """Keep the reason code for the SUBACK."""
        super().__init__(text)
        self.reason = reason


class LiveResolver:
    """Resolves on one world version at a time; all calls come from the event loop."""

    def __init__(self, world: str, limits: ResolverLimits) -> None:
        self._world = world
        self._limits = limits
        self._process: ResolverProcess | None = None
        self._known: ByteCache[LiveResolution] = ByteCache(CACHE_BYTES)
        self._under_way: dict[str, asyncio.Task[LiveResolution]] = {}
        self._restarting: asyncio.Task[None] | None = None
        self._stopping = False
        # Counted for metrics.
        self.resolved = 0
        self.reused = 0
        self.refused = 0

    @property
    def version(self) -> int:
        """The world version in use; 0 before the first one is loaded."""
        return self._process.version if self._process is not None else 0

    @property
    def waiting(self) -> int:
        """Neighborhoods that are being resolved."""
        return len(self._under_way)

    async def start(self, version: int | None = None) -> None:
        """Load a world version, the newest when none is given; WorldError if there is none."""
        self._use(await start_resolver(self._world, version))

    async def use_version(self, version: int) -> None:
        """Load another version beside the one in use, then resolve on that."""
        if version == self.version:
            return
        before = self._use(await start_resolver(self._world, version))
        if before is not None:
            await before.stop()

    async def stop(self) -> None:
        """End the process; whoever waits is told."""
        self._stopping = True
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.gather(self._restarting, return_exceptions=True)
        if self._process is not None:
            await self._process.stop()

    async def resolve(self, descriptor: str) -> LiveResolution:
        """The members; NeighborhoodRefusedError with reason code and text."""
        key = hashlib.sha256(descriptor.encode()).hexdigest()
        known = self._known.get(key)
        if known is not None:
            self.reused += 1
            return known
        task = self._under_way.get(key)
        if task is None:
            if len(self._under_way) >= self._limits.waiting:
                raise NeighborhoodRefusedError(
                    ReasonCode.QUOTA_EXCEEDED, "too many neighborhoods are being resolved"
                )
            task = asyncio.create_task(self._resolve(descriptor, key), name="resolve")
            self._under_way[key] = task
        else:
            self.reused += 1
        # Shielded: one who gives up must not take the answer from others.
        return await asyncio.shield(task)

    async def _resolve(self, descriptor: str, key: str) -> LiveResolution:
        try:
            version, header, peids = await self._ask(descriptor)
        finally:
            del self._under_way[key]
        if "reason" in header:
            self.refused += 1
            raise NeighborhoodRefusedError(ReasonCode(header["reason"]), header["text"])
        self.resolved += 1
        resolution = LiveResolution(
            version,
            header.get("json", descriptor),
            header["hash"],
            peids,
            tuple(header["warnings"]),
        )
        if version == self.version:
            self._known.put(key, resolution, peids.nbytes + len(descriptor) + ENTRY_BYTES)
        return resolution

    async def _ask(self, descriptor: str) -> tuple[int, dict[str, Any], Int64s]:
        while True:
            process = self._process
            if process is None:
                raise _unavailable("no world version is loaded")
            limits = self._limits
            try:
                answer = await process.ask(descriptor, limits.seconds, limits.members)
            except ResolverGoneError as error:
                if process is self._process:
                    raise _unavailable(str(error)) from error
            else:
                if process is self._process:
                    return process.version, *answer
            # Another version came into use meanwhile: it is the one to resolve on.

    def _use(self, process: ResolverProcess) -> ResolverProcess | None:
        """Put a process in place; gives the one that was there."""
        before, self._process = self._process, process
        self._known.clear()
        process.when_ended(lambda: self._ended(process))
        return before

    def _ended(self, process: ResolverProcess) -> None:
        if process is self._process and not self._stopping:
            log.error("the resolver process of version %d ended; starting another", self.version)
            self._restarting = asyncio.create_task(self._start_again(process), name="resolver")

    async def _start_again(self, ended: ResolverProcess) -> None:
        await ended.stop()
        while self._process is ended:
            try:
                self._use(await start_resolver(self._world, ended.version))
            except WorldError as error:
                log.error("the resolver cannot start: %s", error)  # noqa: TRY400 - its text is the whole story
                await asyncio.sleep(RESTART_DELAY)


def _unavailable(text: str) -> NeighborhoodRefusedError:
    return NeighborhoodRefusedError(ReasonCode.UNSPECIFIED_ERROR, text)
