"""Finds the Redis of the settings: the one at the URL, the embedded one of the world, or none."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redis_link.connection.embedded import EmbeddedRedis, holds_redis, redis_server_program
from schemas.errors import RedisLinkError, SettingsError
from schemas.settings import NO_REDIS, Settings
from schemas.world_places import FOLDER, embedded_place, world_folder

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 1.0
# Where earlier releases kept the embedded server, from the folder in which a command was started.
EARLIER_PLACE: Final = Path("lake/redis")


@dataclass(frozen=True, slots=True)
class RedisChoice:
    """The Redis of a broker: its URL, None without Redis; the server, if it is the embedded one."""

    url: str | None = None
    server: EmbeddedRedis | None = None

    async def keep_running(self) -> None:
        """Start the embedded server again whenever it has ended; runs until it is cancelled."""
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
    """Give a broker its Redis, as long as the block runs.

    On a machine without redis-server the broker serves without durability and logs a warning. An
    embedded server that does not start is an error: its folder may hold what was promised.
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


@contextmanager
def redis_or_embedded(settings: Settings) -> Iterator[str]:
    """Give the URL of the settings, or that of the embedded server as long as the block runs."""
    if settings.redis.url:
        yield settings.redis.url
        return
    with EmbeddedRedis(embedded_folder(settings)) as server:
        yield server.url


@contextmanager
def redis_to_read(settings: Settings) -> Iterator[str | None]:
    """Give a URL to a command that only reads; None where there is no Redis. Nothing is made."""
    if settings.redis.url:
        yield None if settings.redis.url == NO_REDIS else settings.redis.url
        return
    folder = settings.redis.data_dir or embedded_place(settings.world.dir)
    if settings.redis.data_dir is None and not holds_redis(folder):
        folder = _place_beside(settings.world.dir) or folder
    if not holds_redis(folder):
        yield None
        return
    with EmbeddedRedis(folder) as server:
        yield server.url


@contextmanager
def redis_or_empty(settings: Settings) -> Iterator[str]:
    """Give a URL to read from; where there is no Redis, that of an empty temporary server."""
    with redis_to_read(settings) as url:
        if url is not None:
            yield url
            return
    with (
        tempfile.TemporaryDirectory(prefix="spaps-redis-") as folder,
        EmbeddedRedis(Path(folder)) as server,
    ):
        yield server.url


def embedded_folder(settings: Settings) -> Path:
    """Return the folder of the embedded server; that of an earlier release is moved there."""
    if settings.redis.data_dir is not None:
        return settings.redis.data_dir
    folder = embedded_place(settings.world.dir)
    if folder.exists():
        return folder
    beside = _place_beside(settings.world.dir)
    if beside is not None:
        _move(beside, folder)
    elif holds_redis(EARLIER_PLACE):
        log.warning(
            "%s holds the embedded Redis of an earlier release: to go on with it, stop what "
            "uses it and move it to %s before the next start",
            EARLIER_PLACE.absolute(), folder,
        )  # fmt: skip
    return folder


def _place_beside(world: str) -> Path | None:
    """Return the folder beside the world where an earlier release kept its Redis, if any."""
    folder = world_folder(world)
    beside = None if folder is None else folder.parent / FOLDER
    return beside if beside is not None and holds_redis(beside) else None


def _move(earlier: Path, folder: Path) -> None:
    server = EmbeddedRedis(earlier)
    # Ends the server, unless another process uses it.
    server.close()
    if server.is_listening():
        raise SettingsError(
            f"{earlier} holds the embedded Redis of an earlier release, and it is in use: stop "
            f"its broker, and start again; it is then moved to {folder}"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    earlier.rename(folder)
    log.warning("the embedded Redis in %s was moved to %s", earlier, folder)
