"""Makes the request for a rebuild out of settings and options, for command and job alike.

A rebuild never imports Spark. A caller gives the bulk engine along in the request, and the rebuild
uses it when the size of the work needs it (``rebuild/bulk_engine.py``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rebuild.bulk_engine import BulkEngineFactory, Engine, engine_of, no_bulk_engine
from redis_link.connection.redis_choice import redis_to_read
from redis_link.generation.generation_store import GRACE_SECONDS
from redis_link.generation.quality_gate import QualityGate, gate_of
from schemas.errors import EXIT_DONE, SettingsError, WorldError
from schemas.settings import Settings
from schemas.world_places import local_folder
from world.long_work import Progress, silent
from world.versions.store import WorldStore

NOTHING_IN_FORCE: Final = "no generation is in force: there is nothing to roll back"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders and the Redis of a rebuild."""

    world: str
    # Folder of the table of memberships.
    out: str
    # Folder of the records; always on this machine.
    records: Path
    redis_url: str


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """The options of a rebuild; ``import_options`` are those of ``world.imports.world_import``."""

    places: Places
    sources: tuple[str, ...] = ()
    import_options: dict[str, Any] = field(default_factory=dict)
    engine: Engine = Engine.AUTO
    # Take nothing over from earlier rebuilds.
    full: bool = False
    if_changed: bool = False
    keep_versions: int = 5
    grace_seconds: float = GRACE_SECONDS
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    say: Callable[[str], None] = lambda _line: None
    progress: Progress = silent
    # Makes the engine that resolves and pushes what this process cannot.
    bulk: BulkEngineFactory = no_bulk_engine
    # What may not be gone before a switch.
    gate: QualityGate | None = None


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild or rollback did."""

    rebuild: int | None
    version: int
    generation: int | None
    # One line for a person.
    summary: str
    exit_code: int = EXIT_DONE


def places_of(settings: Settings, redis_url: str) -> Places:
    """Return the folders and the Redis of a rebuild."""
    return Places(settings.world.dir, settings.rebuild.out, settings.rebuild.records, redis_url)


def sources_of(given: Sequence[str | Path], settings: Settings) -> tuple[str, ...]:
    """Return the given sources, else those in conf, else those of the newest version."""
    chosen = [str(source) for source in given or settings.rebuild.sources]
    if not chosen:
        versions = WorldStore(settings.world.dir).versions()
        chosen = [_found(path) for path in versions[-1].given_sources()] if versions else []
    if not chosen:
        raise SettingsError(
            "nothing to rebuild from: give the source files, or set rebuild.sources in conf"
        )
    return tuple(chosen)


def require_version(settings: Settings, version: int | None) -> None:
    """Refuse a rollback to a version that is not there, before anything is started."""
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


def request_of(  # noqa: PLR0913 - what settings do not say
    settings: Settings,
    redis_url: str,
    *,
    sources: tuple[str, ...] = (),
    import_options: dict[str, Any] | None = None,
    full: bool = False,
    if_changed: bool = False,
    switch_anyway: bool = False,
    say: Callable[[str], None],
    progress: Progress = silent,
    bulk: BulkEngineFactory,
) -> RebuildRequest:
    """Return the request for a rebuild or a rollback."""
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
        gate=gate_of(settings.quality, switch_anyway=switch_anyway),
    )
