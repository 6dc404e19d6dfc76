"""Follows what changes in Redis: looks after each notice, and regularly for lost ones."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, TypeAlias

from redis_link.connection.redis_connection import RedisConnection
from schemas.errors import SpapsError

# Opens a connection that calls a function after each notice.
Listen: TypeAlias = Callable[[Callable[[], None]], Awaitable[RedisConnection]]

# A change must be noticed within a second, even when its notice was lost.
LOOK_SECONDS: Final = 0.8


class ChangeFollower(ABC):
    """Looks again and again; what is in force stays when a look fails."""

    # What the log says of a look that failed, and of one that failed for an unknown reason.
    log: ClassVar[logging.Logger]
    kept: ClassVar[str]
    failure: ClassVar[str]

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._listening: RedisConnection | None = None
        self._news = asyncio.Event()
        self.problem = ""

    @abstractmethod
    async def _look_once(self) -> str:
        """Look for changes and apply them; return what could not be done, or an empty text."""

    def look_soon(self) -> None:
        """Check Redis now: something may have changed."""
        self._news.set()

    async def follow(self) -> None:
        """Look for changes and apply them, until cancelled."""
        try:
            while True:
                # Cleared first, so that a notice that arrives during a look starts another one.
                self._news.clear()
                await self._look()
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    continue
        finally:
            if self._listening is not None:
                self._listening.close()

    async def _look(self) -> None:
        """Look once; a problem is logged once, and the next look tries again."""
        try:
            self._note(await self._look_once())
        except SpapsError as error:
            self._note(str(error))
        except Exception as error:
            # The next look tries again.
            self.log.exception(self.failure)
            self._note(f"{type(error).__name__}: {error}")

    async def _listen_again(self) -> None:
        """Open the connection for notices, if there is none."""
        if self._listening is None or not self._listening.is_open:
            self._listening = await self._listen(self._news.set)

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            self.log.warning("%s: %s", self.kept, problem)
        self.problem = problem
