"""Keeps a resolver process running, and asks again what one did not answer because it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from broker.codec.reason_codes import ReasonCode
from broker.resolver.resolver_answers import (
    NeighborhoodRefusedError,
    ResolverCounts,
    ResolverLimits,
)
from broker.resolver.resolver_process import (
    ResolverGoneError,
    ResolverLateError,
    ResolverProcess,
    start_resolver,
)
from schemas.errors import WorldError
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

RESTART_DELAY: Final = 1.0


class ResolverSupervisor:
    """One world version; another process is started whenever one ends."""

    def __init__(self, world: str, process: ResolverProcess, counts: ResolverCounts) -> None:
        self._world = world
        self._counts = counts
        self._changed = asyncio.Condition()
        # Requests that are being asked; whether one is asked alone, and how many are to be.
        self._asking = 0
        self._is_alone = False
        self._suspects = 0
        self._restarting: asyncio.Task[None] | None = None
        self._stopping = False
        self.process = process
        self._watch(process)

    @property
    def version(self) -> int:
        """The world version."""
        return self.process.version

    @property
    def world_id(self) -> str:
        """What tells the world from every other."""
        return self.process.world_id

    @property
    def is_running(self) -> bool:
        """Whether a process can answer now."""
        return self.process.is_running

    async def stop(self) -> None:
        """End the process; what is not answered fails."""
        self._stopping = True
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.gather(self._restarting, return_exceptions=True)
        await self.process.stop()
        await self._notify()

    async def ask(self, descriptor: str, limits: ResolverLimits) -> tuple[dict[str, Any], Int64s]:
        """Return the answer; NeighborhoodRefusedError when there is none to be had."""
        try:
            async with self._together(limits):
                return await self._asked(descriptor, limits)
        except ResolverGoneError:
            self._counts.asked_again += 1
        # It may have been this one that ended the process. Alone it harms nobody else.
        try:
            async with self._alone(limits):
                return await self._asked(descriptor, limits)
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
        self, descriptor: str, limits: ResolverLimits
    ) -> tuple[dict[str, Any], Int64s]:
        try:
            return await self.process.ask(descriptor, limits.seconds, limits.members)
        except ResolverLateError as error:
            self._counts.late += 1
            raise NeighborhoodRefusedError(ReasonCode.QUOTA_EXCEEDED, str(error)) from error

    @asynccontextmanager
    async def _together(self, limits: ResolverLimits) -> AsyncIterator[None]:
        """Ask beside others, while nothing is asked alone."""
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
        """Wait for a running process and for the right moment; refuse when it takes too long."""
        try:
            async with asyncio.timeout(limits.away_seconds), self._changed:
                await self._changed.wait_for(
                    lambda: self._stopping or (self.is_running and is_free())
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
            log.error("the resolver process of version %d ended; starting another", self.version)
            self._restarting = asyncio.create_task(self._start_again(process), name="resolver")

    async def _start_again(self, ended: ResolverProcess) -> None:
        await ended.stop()
        while self.process is ended:
            try:
                self.process = await start_resolver(self._world, ended.version)
            except WorldError as error:
                log.error("the resolver cannot start: %s", error)  # noqa: TRY400 - its text is the whole story
                await asyncio.sleep(RESTART_DELAY)
        self._watch(self.process)
        await self._notify()


def away_error() -> NeighborhoodRefusedError:
    """Return the refusal of what nobody answers now."""
    return NeighborhoodRefusedError(
        ReasonCode.UNSPECIFIED_ERROR, "the resolver is starting again, try later", is_passing=True
    )
