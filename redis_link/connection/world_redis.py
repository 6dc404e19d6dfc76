"""The Redis of the settings: the one at the URL, or the embedded one of the world."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from redis_link.connection.embedded import EmbeddedRedis, holds_redis
from schemas.errors import SettingsError
from schemas.settings import NO_REDIS, Settings
from schemas.world_places import FOLDER, embedded_place, world_folder

log = logging.getLogger(__name__)

# Where earlier releases kept it, from the folder in which a command was started.
EARLIER_PLACE: Final = Path("lake/redis")


@contextmanager
def redis_or_embedded(settings: Settings) -> Iterator[str]:
    """The URL that is set, or that of the embedded server as long as the block runs."""
    if settings.redis.url:
        yield settings.redis.url
        return
    with EmbeddedRedis(embedded_folder(settings)) as server:
        yield server.url


@contextmanager
def redis_to_read(settings: Settings) -> Iterator[str | None]:
    """The same for commands that only read: None where there is no Redis, and nothing is made."""
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
    """The URL to read from; where there is no Redis, that of an empty server for the moment."""
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
    """The folder beside the world in which an earlier release kept its Redis, if there is one."""
    folder = world_folder(world)
    beside = None if folder is None else folder.parent / FOLDER
    return beside if beside is not None and holds_redis(beside) else None


def _move(earlier: Path, folder: Path) -> None:
    server = EmbeddedRedis(earlier)
    # Ends it, unless somebody else uses it.
    server.close()
    if server.is_listening():
        raise SettingsError(
            f"{earlier} holds the embedded Redis of an earlier release, and it is in use: stop "
            f"its broker, and start again; it is then moved to {folder}"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    earlier.rename(folder)
    log.warning("the embedded Redis in %s was moved to %s", earlier, folder)
