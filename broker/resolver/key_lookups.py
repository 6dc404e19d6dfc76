"""Finds entities by key in a process beside the broker, all that are asked for meanwhile together.

The process is started by the first question, and again when another world version is in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from broker.resolver.search_process import SearchLimits, SearchProcess, SearchUnavailableError

WORKER = "broker.resolver.key_worker"
# The process is kept: publishers with new keys should not wait until it is loaded.
LIMITS = SearchLimits(visitor_seconds=30.0, process_seconds=30.0, waiting=1, idle_seconds=86_400.0)


class KeyLookUps:
    """Peids by key in the world version in force; all calls come from the event loop."""

    def __init__(self, world: str, version: Callable[[], int]) -> None:
        self._version = version
        self._process = SearchProcess(world, version, LIMITS, WORKER)
        # The keys of the next question, and what their askers wait for.
        self._keys: set[str] = set()
        self._answer: asyncio.Future[Mapping[str, int]] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def find(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the peids of the keys that exist; SearchUnavailableError if none can be had."""
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
        self._keys.update(keys)
        answer = self._answer
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="keys of entities")
        return await asyncio.shield(answer)

    async def stop(self) -> None:
        """End the process; look-ups that wait get an error."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._process.stop()

    async def _ask(self) -> None:
        """Ask for all keys that are wanted, again and again until there are none."""
        try:
            while self._answer is not None:
                keys, answer = sorted(self._keys), self._answer
                self._keys, self._answer = set(), None
                try:
                    peids = await self._peids_of(keys)
                except SearchUnavailableError as error:
                    answer.set_exception(error)
                    # Looked at, also when nobody waits any more.
                    answer.exception()
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
