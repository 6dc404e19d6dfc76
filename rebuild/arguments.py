"""From settings to a request: the same for ``spaps rebuild`` and the job."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rebuild.bulk_engine import BulkEngineFactory
from rebuild.request import Engine, Places, RebuildRequest
from redis_link.connection.world_redis import redis_to_read
from schemas.errors import SettingsError, WorldError
from schemas.settings import Settings
from schemas.world_places import local_folder
from world.progress import Progress, silent
from world.versions.store import WorldStore

NOTHING_IN_FORCE: Final = "no generation is in force: there is nothing to roll back"


def places_of(settings: Settings, redis_url: str) -> Places:
    """Where everything lies."""
    return Places(settings.world.dir, settings.rebuild.out, settings.rebuild.records, redis_url)


def sources_of(given: Sequence[str | Path], settings: Settings) -> tuple[str, ...]:
    """The sources that were given, those in conf, or those of the newest version."""
    chosen = [str(source) for source in given or settings.rebuild.sources]
    if not chosen:
        versions = WorldStore(settings.world.dir).versions()
        chosen = [_found(source.path) for source in versions[-1].sources] if versions else []
    if not chosen:
        raise SettingsError(
            "nothing to rebuild from: give the source files, or set rebuild.sources in conf"
        )
    return tuple(chosen)


def require_version(settings: Settings, version: int | None) -> None:
    """Refuse a rollback to what is not there, before anything is started or made for it."""
    WorldStore(settings.world.dir).facts_of(version)
    if version is None and not settings.redis.url:
        with redis_to_read(settings) as url:
            if url is None:
                raise WorldError(NOTHING_IN_FORCE)


def _found(source: str) -> str:
    """Return a source of the newest version; an earlier release stored paths as they were given."""
    path = local_folder(source)
    if path is not None and not path.is_absolute() and not path.exists():
        raise SettingsError(
            f"the newest version was imported from {source}, a path relative to the folder where "
            "that import was started: start the rebuild there, or give the source files"
        )
    return source


def engine_of(name: str) -> Engine:
    """The engine of that name."""
    try:
        return Engine(name)
    except ValueError:
        known = ", ".join(Engine)
        raise SettingsError(f"rebuild.engine must be one of {known}, not {name!r}") from None


def request_of(  # noqa: PLR0913  what settings do not say
    settings: Settings,
    redis_url: str,
    *,
    sources: tuple[str, ...] = (),
    import_options: dict[str, Any] | None = None,
    full: bool = False,
    if_changed: bool = False,
    say: Callable[[str], None],
    progress: Progress = silent,
    bulk: BulkEngineFactory,
) -> RebuildRequest:
    """The request for a rebuild or a rollback."""
    if settings.rebuild.keep_versions < 1:
        raise SettingsError("rebuild.keep_versions must be 1 or more")
    if not 0 <= settings.rebuild.grace_seconds < math.inf:  # also NaN, which is like no number
        raise SettingsError("rebuild.grace_seconds must be a number of seconds, 0 or more")
    return RebuildRequest(
        places=places_of(settings, redis_url),
        sources=sources,
        import_options=import_options or {},
        engine=engine_of(settings.rebuild.engine),
        full=full,
        if_changed=if_changed,
        keep_versions=settings.rebuild.keep_versions,
        grace_seconds=settings.rebuild.grace_seconds,
        say=say,
        progress=progress,
        bulk=bulk,
    )
