"""The broker's end of one resolver process: starts it, sends requests, and matches answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from broker.resolver.frames import FrameError
from broker.resolver.helper_process import HelperProcess
from broker.resolver.known_peids import KnownPeids
from broker.resolver.resolver_requests import (
    ResolverGoneError,
    ResolverLateError,
    ResolverLimits,
    ResolverLostError,
)
from schemas.errors import WorldError
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

# A worker checks the deadline several times a second; one that is later than this is stuck.
LATENESS: Final = 10.0


class ResolverProcess:
    """One running process with one world version; answers are matched by number."""

    def __init__(
        self, process: HelperProcess, version: int, world_id: str, peids: KnownPeids
    ) -> None:
        self._process = process
        self.version = version
        self.world_id = world_id
        self.peids = peids
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], Int64s]]] = {}
        self._last_number = 0
        self._receiving = asyncio.create_task(self._receive(), name="resolver answers")

    @classmethod
    async def start(cls, world: str, version: int | None) -> ResolverProcess:
        """Start a process and load the version (None: the newest); WorldError if it fails."""
        wanted = [] if version is None else ["--version", str(version)]
        module = "broker.resolver.resolver_worker"
        process = await HelperProcess.start(module, "--world", world, *wanted)
        try:
            loaded, _ = await process.receive()
            parts = [(await process.receive())[1][0] for _ in range(loaded.get("peid_parts", 0))]
        except BaseException as error:
            await process.stop()
            if isinstance(error, EOFError | OSError | FrameError):
                text = f"world {world}: the resolver process ended while loading"
                raise ResolverLostError(text) from None
            raise
        if "failed" in loaded:
            await process.stop()
            raise WorldError(loaded["failed"])
        return cls(process, loaded["version"], loaded["world"], KnownPeids(parts))

    def when_ended(self, action: Callable[[], None]) -> None:
        """Register ``action`` to be called once the process can no longer answer."""
        self._receiving.add_done_callback(lambda _: action())

    @property
    def is_running(self) -> bool:
        """Whether the process can still answer."""
        return not self._receiving.done()

    @property
    def waiting(self) -> int:
        """Number of requests without an answer."""
        return len(self._waiting)

    async def ask(
        self, descriptor: str, limits: ResolverLimits, peid: int | None = None
    ) -> tuple[dict[str, Any], Int64s]:
        """Return the answer: header and peids; ResolverGoneError, ResolverLateError.

        With a peid the header says what each stage has to do with this entity, and no peids follow.
        """
        if not self.is_running:
            raise ResolverGoneError("the resolver process has ended")
        self._last_number += 1
        number = self._last_number
        answer: asyncio.Future[tuple[dict[str, Any], Int64s]]
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        request = {
            "number": number,
            "descriptor": descriptor,
            "seconds": limits.seconds,
            "max_members": limits.members,
        }
        self._process.send(request if peid is None else request | {"peid": peid})
        try:
            return await asyncio.wait_for(answer, limits.seconds + LATENESS)
        except TimeoutError:
            self.kill()
            raise ResolverLateError("the neighborhood took too long to resolve") from None
        finally:
            self._waiting.pop(number, None)

    def kill(self) -> None:
        """Kill the process; requests without an answer fail."""
        self._process.kill()

    async def stop(self) -> None:
        """Kill the process and wait until it has ended."""
        await self._process.stop()
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)

    async def _receive(self) -> None:
        try:
            while True:
                header, (peids,) = await self._process.receive()
                answer = self._waiting.get(header["number"])
                if answer is not None and not answer.done():
                    answer.set_result((header, peids))
        except (EOFError, OSError, FrameError) as error:
            gone = ResolverGoneError("the resolver process has ended")
            if isinstance(error, FrameError):
                log.error("the resolver process is ended: %s", error)  # noqa: TRY400 - its text is enough
                self.kill()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(gone)
