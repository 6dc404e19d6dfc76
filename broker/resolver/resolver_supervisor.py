"""Keeps a resolver process running for one world version, and restarts it when it ends.

Requests that were not answered because the process ended are sent again, one by one. So a
neighborhood that ends the process is separated from those that were resolved at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from broker.codec.reason_codes import ReasonCode
from broker.resolver.resolver_process import ResolverProcess
from broker.resolver.resolver_requests import (
    NeighborhoodRefusedError,
    ResolverCounts,
    ResolverGoneError,
    ResolverLateError,
    ResolverLimits,
    away_error,
)
from schemas.errors import WorldError
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

RESTART_DELAY: Final = 1.0


class ResolverSupervisor:
    """Serves one world version; starts another process whenever one ends."""

    def __init__(self, world: str, process: ResolverProcess, counts: ResolverCounts) -> None:
        self._world = world
        self._counts = counts
        self._changed = asyncio.Condition()
        # Requests in progress; whether one runs alone, and how many are to run alone.
        self._asking = 0
        self._is_alone = False
        self._suspects = 0
        self._restarting: asyncio.Task[None] | None = None
        self._stopping = False
        self.process = process
        self._watch(process)

    async def stop(self) -> None:
        """End the process; requests without an answer fail."""
        self._stopping = True
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.gather(self._restarting, return_exceptions=True)
        await self.process.stop()
        await self._notify()

    async def ask(
        self, descriptor: str, limits: ResolverLimits, peid: int | None = None
    ) -> tuple[dict[str, Any], Int64s]:
        """Return the answer; NeighborhoodRefusedError when there is none."""
        try:
            async with self._together(limits):
                return await self._asked(descriptor, limits, peid)
        except ResolverGoneError:
            self._counts.asked_again += 1
        # This request may have ended the process. Alone it cannot affect others.
        try:
            async with self._alone(limits):
                return await self._asked(descriptor, limits, peid)
        except ResolverGoneError as error:
            if self._stopping:
                raise away_error() from error
            log.error("a neighborhood is refused: the resolver ended twice over it")  # noqa: TRY400
            raise NeighborhoodRefusedError(
                ReasonCode.UNSPECIFIED_ERROR,
                "the resolver process ended twice while it resolved this neighborhood",
                is_passing=True,
            ) from error

    async def _asked(
        self, descriptor: str, limits: ResolverLimits, peid: int | None
    ) -> tuple[dict[str, Any], Int64s]:
        try:
            return await self.process.ask(descriptor, limits, peid)
        except ResolverLateError as error:
            self._counts.late += 1
            raise NeighborhoodRefusedError(ReasonCode.QUOTA_EXCEEDED, str(error)) from error

    @asynccontextmanager
    async def _together(self, limits: ResolverLimits) -> AsyncIterator[None]:
        """Run a request beside others, while none runs alone."""
        await self._wait_until(lambda: not (self._is_alone or self._suspects), limits)
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            await self._notify()

    @asynccontextmanager
    async def _alone(self, limits: ResolverLimits) -> AsyncIterator[None]:
        self._suspects += 1
        try:
            await self._wait_until(lambda: not (self._is_alone or self._asking), limits)
            self._is_alone = True
        finally:
            self._suspects -= 1
        try:
            yield
        finally:
            self._is_alone = False
            await self._notify()

    async def _wait_until(self, is_free: Callable[[], bool], limits: ResolverLimits) -> None:
        """Wait for a running process and for ``is_free``; refuse when it takes too long."""
        try:
            async with asyncio.timeout(limits.away_seconds), self._changed:
                await self._changed.wait_for(
                    lambda: self._stopping or (self.process.is_running and is_free())
                )
        except TimeoutError:
            raise away_error() from None
        if self._stopping:
            raise away_error()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _watch(self, process: ResolverProcess) -> None:
        process.when_ended(lambda: self._ended(process))

    def _ended(self, process: ResolverProcess) -> None:
        if process is self.process and not self._stopping:
            self._counts.restarts += 1
            log.error("the resolver process of version %d ended; starting another", process.version)
            self._restarting = asyncio.create_task(self._start_again(process), name="resolver")

    async def _start_again(self, ended: ResolverProcess) -> None:
        await ended.stop()
        while self.process is ended:
            try:
                self.process = await ResolverProcess.start(self._world, ended.version)
            except WorldError as error:
                log.error("the resolver cannot start: %s", error)  # noqa: TRY400 - its text is enough
                await asyncio.sleep(RESTART_DELAY)
        self._watch(self.process)
        await self._notify()
