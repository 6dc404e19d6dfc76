"""What a rebuild is asked for, and what it says at its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rebuild.bulk_engine import BulkEngineFactory, no_bulk_engine
from redis_link.generation.sweep import GRACE_SECONDS
from schemas.errors import EXIT_DONE
from world.progress import Progress, silent


class Engine(StrEnum):
    """Who resolves; AUTO decides by the size of the world and of the work."""

    AUTO = "auto"
    EXACT = "exact"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything lies."""

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
    # Who resolves and pushes what this process cannot.
    bulk: BulkEngineFactory = no_bulk_engine


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """The end of a rebuild or rollback."""

    rebuild: int | None
    version: int
    generation: int | None
    # One line for a person.
    summary: str
    exit_code: int = EXIT_DONE
