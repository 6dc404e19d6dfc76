"""The broker's end of one resolver process: requests go out, answers come back by number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from broker.resolver.child_process import ChildProcess
from broker.resolver.resolver_frames import pack_frame, receive_frame
from schemas.errors import SpapsError, WorldError
from spatial_udfs.entity_table import Int64s

# A worker looks at the clock several times a second; one that is so late does not answer any more.
LATENESS: Final = 10.0


class ResolverGoneError(SpapsError):
    """The resolver process ended before it answered: another one may answer."""


class ResolverLostError(WorldError):
    """The resolver process ended while it loaded the world: another one may not."""


class ResolverLateError(SpapsError):
    """The resolver process was ended because of this request, which took too long."""


class ResolverProcess:
    """One running process with one world version. Made by ``start_resolver``."""

    def __init__(
        self,
        process: ChildProcess,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        version: int,
        world_id: str,
    ) -> None:
        self._process = process
        self._reader, self._writer = streams
        self.version = version
        self.world_id = world_id
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], Int64s]]] = {}
        self._last_number = 0
        self._receiving = asyncio.create_task(self._receive(), name="resolver answers")

    def when_ended(self, action: Callable[[], None]) -> None:
        """Have ``action`` called once it can no longer answer, for whatever reason."""
        self._receiving.add_done_callback(lambda _: action())

    @property
    def is_running(self) -> bool:
        """Whether it can still answer."""
        return not self._receiving.done()

    @property
    def waiting(self) -> int:
        """How many requests it has not answered."""
        return len(self._waiting)

    async def ask(
        self, descriptor: str, seconds: float, max_members: int | None
    ) -> tuple[dict[str, Any], Int64s]:
        """Return its answer: header and peids; ResolverGoneError, ResolverLateError."""
        if not self.is_running:
            raise ResolverGoneError("the resolver process has ended")
        self._last_number += 1
        number = self._last_number
        answer: asyncio.Future[tuple[dict[str, Any], Int64s]]
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        header = {
            "number": number, "descriptor": descriptor,
            "seconds": seconds, "max_members": max_members,
        }  # fmt: skip
        self._writer.write(pack_frame(header))
        try:
            return await asyncio.wait_for(answer, seconds + LATENESS)
        except TimeoutError:
            self.kill()
            raise ResolverLateError("the neighborhood took too long to resolve") from None
        finally:
            self._waiting.pop(number, None)

    def kill(self) -> None:
        """End the process now; what it has not answered fails."""
        self._process.kill()

    async def stop(self) -> None:
        """End the process and wait until it is gone."""
        self._writer.close()
        await self._process.end()
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)

    async def _receive(self) -> None:
        try:
            while True:
                header, peids = await receive_frame(self._reader)
                answer = self._waiting.get(header["number"])
                if answer is not None and not answer.done():
                    answer.set_result((header, peids))
        except (asyncio.IncompleteReadError, OSError):
            gone = ResolverGoneError("the resolver process has ended")
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(gone)


async def start_resolver(world: str, version: int | None) -> ResolverProcess:
    """A process that has loaded the world version (None: the newest); WorldError if it cannot."""
    wanted = [] if version is None else ["--version", str(version)]
    process = ChildProcess("broker.resolver.resolver_worker", "--world", world, *wanted)
    reader, writer = await asyncio.open_connection(sock=process.socket)
    try:
        version, world_id = await _loaded_version(reader, world)
    except BaseException:
        writer.close()
        await process.end()
        raise
    return ResolverProcess(process, (reader, writer), version, world_id)


async def _loaded_version(reader: asyncio.StreamReader, world: str) -> tuple[int, str]:
    """Return the version that was loaded, and the id of its world."""
    try:
        greeting, _ = await receive_frame(reader)
    except asyncio.IncompleteReadError:
        raise ResolverLostError(
            f"world {world}: the resolver process ended while loading"
        ) from None
    if "failed" in greeting:
        raise WorldError(greeting["failed"])
    return greeting["version"], greeting["world"]
