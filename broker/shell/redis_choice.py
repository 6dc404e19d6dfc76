"""Which Redis lies behind the broker: the one of the settings, the embedded one, or none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from redis_link.connection.embedded import EmbeddedRedis, redis_server_program
from redis_link.connection.world_redis import embedded_folder
from schemas.errors import RedisLinkError, SettingsError
from schemas.settings import NO_REDIS, Settings

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class RedisChoice:
    """Its URL, None without Redis; the server, when it is ours to look after."""

    url: str | None = None
    server: EmbeddedRedis | None = None

    async def keep_running(self) -> None:
        """Start the embedded server again whenever it has ended; until cancelled."""
        if self.server is None:
            return
        told = False
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                if await asyncio.to_thread(self.server.revive):
                    log.warning("the embedded Redis had ended and runs again")
                told = False
            except (RedisLinkError, SettingsError, OSError) as error:
                if not told:
                    log.error("the embedded Redis has ended: %s", error)  # noqa: TRY400 - in words
                told = True


@contextmanager
def redis_choice(settings: Settings) -> Iterator[RedisChoice]:
    """What the settings ask for, as long as the block runs.

    A machine without redis-server is told so and served without durability. An embedded server
    that is there and does not start is an error: its folder may hold what was promised.
    """
    if settings.redis.url is not None:
        yield RedisChoice(None if settings.redis.url == NO_REDIS else settings.redis.url)
        return
    try:
        redis_server_program()
    except SettingsError as error:
        log.warning("nothing will outlive this process: %s", error)
        yield RedisChoice()
        return
    with EmbeddedRedis(embedded_folder(settings)) as server:
        yield RedisChoice(server.url, server)
