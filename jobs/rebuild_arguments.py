"""From settings to a request: the same for ``spaps rebuild`` and the job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.rebuild_request import Engine, Places, RebuildRequest
from schemas.errors import SettingsError
from schemas.settings import Settings
from world.progress import Progress, silent
from world.store import WorldStore


def places_of(settings: Settings, redis_url: str) -> Places:
    """Where everything lies."""
    return Places(settings.world.dir, settings.rebuild.out, settings.rebuild.records, redis_url)


def sources_of(given: Sequence[str | Path], settings: Settings) -> tuple[str, ...]:
    """The sources that were given, those in conf, or those of the newest version."""
    chosen = [str(source) for source in given or settings.rebuild.sources]
    if not chosen:
        versions = WorldStore(settings.world.dir).versions()
        chosen = [source.path for source in versions[-1].sources] if versions else []
    if not chosen:
        raise SettingsError(
            "nothing to rebuild from: give the source files, or set rebuild.sources in conf"
        )
    return tuple(chosen)


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
) -> RebuildRequest:
    """The request for a rebuild or a rollback."""
    if settings.rebuild.keep_versions < 1:
        raise SettingsError("rebuild.keep_versions must be 1 or more")
    if settings.rebuild.grace_seconds < 0:
        raise SettingsError("rebuild.grace_seconds must be 0 or more")
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
    )
