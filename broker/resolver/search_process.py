"""Searches for entities, and finds keys, in two helper processes that the first request starts.

One search is computed at a time, a few wait. A search that takes longer than its visitor waits goes
on, and the next ones are refused until it has ended or its process is killed. When a world cannot
be loaded, all searches that waited for it get the same answer. Keys that are asked for meanwhile
are looked up together, as many as one question has room for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from broker.resolver.frames import FrameError
from broker.resolver.helper_process import HelperProcess
from schemas.entity import key_fault
from schemas.errors import SpapsError

log = logging.getLogger(__name__)

WORKER: Final = "broker.resolver.search_worker"


class SearchUnavailableError(SpapsError):
    """There is no answer now; the text says why."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits on searches, in seconds and in number."""

    # Less than the time of a visit of the HTTP server.
    visitor_seconds: float = 4.0
    process_seconds: float = 60.0
    waiting: int = 16
    # Without a search for so long the process is ended, to free its memory.
    idle_seconds: float = 600.0


class SearchProcess:
    """Answers searches on the world version in force; all calls come from the event loop."""

    def __init__(
        self,
        world: str,
        version: Callable[[], int],
        limits: SearchLimits | None = None,
        *options: str,
    ) -> None:
        """Start nothing yet. ``version`` returns the version in force; 0 for the newest.

        ``options`` are those of the process, such as ``--keys``.
        """
        self._options = options
        self._world = world
        self._version = version
        self._limits = SearchLimits() if limits is None else limits
        self._process: HelperProcess | None = None
        self._process_version = 0
        self._turn = asyncio.Lock()
        self._waiting = 0
        # How many loads have failed, and why the last one did.
        self._failed_loads = 0
        self._failure = ""
        self._idle: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[dict[str, Any]]] = set()
        # Kept, because the event loop keeps no task alive.
        self._ending: asyncio.Task[None] | None = None

    async def ask(self, parameters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return the answer of the process; SearchUnavailableError if there is none in time."""
        if self._waiting >= self._limits.waiting:
            raise SearchUnavailableError("too many searches wait: try again")
        task = asyncio.create_task(self._answer(parameters), name="entity search")
        self._tasks.add(task)
        self._waiting += 1
        task.add_done_callback(self._ended)
        try:
            # The search goes on when its visitor has left: its answer must be taken anyway.
            return await asyncio.wait_for(asyncio.shield(task), self._limits.visitor_seconds)
        except TimeoutError:
            raise SearchUnavailableError(
                "the search takes longer than a visit, or its world is loading: try again"
            ) from None

    async def stop(self) -> None:
        """End the process; searches that wait get an error."""
        if self._idle is not None:
            self._idle.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end()

    def _ended(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._tasks.discard(task)
        self._waiting -= 1
        if not task.cancelled():
            task.exception()  # looked at, also when its visitor has left

    async def _answer(self, parameters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        request = {"parameters": {name: [*values] for name, values in parameters.items()}}
        failed_before = self._failed_loads
        async with self._turn:
            if self._failed_loads > failed_before:
                # It failed while this search waited: another try would only make others wait.
                raise SearchUnavailableError(self._failure)
            # A process that ended since the last search is started again, once.
            for attempts_left in (1, 0):
                try:
                    async with asyncio.timeout(self._limits.process_seconds):
                        process = await self._running()
                        process.send(request)
                        answer, _ = await process.receive()
                except (OSError, EOFError, FrameError) as error:
                    await self._end()
                    if attempts_left and not isinstance(error, TimeoutError):
                        continue
                    log.warning("the search process ends or does not answer")
                    raise SearchUnavailableError("the search has failed: try again") from error
                except asyncio.CancelledError:
                    await self._end()
                    raise
                self._wait_idle()
                return answer
        raise AssertionError  # the last attempt returns or raises

    async def _running(self) -> HelperProcess:
        """Return a process that has loaded the version in force."""
        wanted = self._version()
        if self._process is not None and self._process_version == wanted:
            return self._process
        await self._end()
        chosen = ("--version", str(wanted)) if wanted else ()
        self._process = await HelperProcess.start(
            WORKER, "--world", self._world, *chosen, *self._options
        )
        self._process_version = wanted
        loaded, _ = await self._process.receive()
        if "failed" in loaded:
            self._failed_loads += 1
            self._failure = loaded["failed"]
            await self._end()
            raise SearchUnavailableError(self._failure)
        return self._process

    def _wait_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._limits.idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        if not self._waiting and self._process is not None:
            self._ending = asyncio.create_task(self._end(), name="end of the idle search")

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.stop()


# The process is kept: publishers with new keys should not wait until it is loaded.
KEY_LIMITS: Final = SearchLimits(
    visitor_seconds=30.0, process_seconds=30.0, waiting=1, idle_seconds=86_400.0
)
# Characters of keys from which on a question takes no more: some milliseconds to write it.
MOST_CHARACTERS: Final = 100_000


@dataclass(slots=True, eq=False)
class _Question:
    """Keys that are looked up together, and what their askers wait for."""

    answer: asyncio.Future[Mapping[str, int]]
    keys: set[str] = field(default_factory=set)
    characters: int = 0


class KeyLookUps:
    """Peids by key in the world version in force; all calls come from the event loop."""

    def __init__(self, world: str, version: Callable[[], int]) -> None:
        self._version = version
        self._process = SearchProcess(world, version, KEY_LIMITS, "--keys")
        self._waiting: deque[_Question] = deque()
        self._asking: asyncio.Task[None] | None = None

    async def find(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the peids of the keys that exist; SearchUnavailableError if none can be had."""
        # No entity has a key that no import accepts, whatever stands in a topic.
        possible = [key for key in keys if key_fault(key) is None]
        if not possible:
            return {}
        if not self._waiting or self._waiting[-1].characters >= MOST_CHARACTERS:
            self._waiting.append(_Question(asyncio.get_running_loop().create_future()))
        question = self._waiting[-1]
        question.keys.update(possible)
        question.characters += sum(map(len, possible))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="keys of entities")
        return await asyncio.shield(question.answer)

    async def stop(self) -> None:
        """End the process; look-ups that wait get an error."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._process.stop()

    async def _ask(self) -> None:
        """Ask one question after the other until there are none."""
        try:
            while self._waiting:
                question = self._waiting.popleft()
                answer = question.answer
                try:
                    peids = await self._peids_of(sorted(question.keys))
                except SearchUnavailableError as error:
                    # All get it: another try for each would only make the last ones wait.
                    for one in (question, *self._waiting):
                        one.answer.set_exception(error)
                        # Looked at, also when nobody waits any more.
                        one.answer.exception()
                    self._waiting.clear()
                except BaseException:
                    answer.cancel()
                    raise
                else:
                    answer.set_result(peids)
        finally:
            self._asking = None

    async def _peids_of(self, keys: Sequence[str]) -> Mapping[str, int]:
        while True:
            version = self._version()
            answer = await self._process.ask({"key": keys})
            if "failed" in answer:
                raise SearchUnavailableError(answer["failed"])
            if version == self._version():
                peids: Mapping[str, int] = answer["peids"]
                return peids
