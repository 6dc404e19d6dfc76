"""The first part: the sample world, imported into the lake."""

from __future__ import annotations

import time

from rich.console import Console

from schemas.settings import Settings
from spaps.cli.terminal import PhaseProgress
from world.imports.world_import import import_world
from world.versions.version_facts import VersionFacts


def import_sample(settings: Settings, console: Console) -> VersionFacts:
    """One world version; the second run finds that nothing has changed."""
    started = time.perf_counter()
    with PhaseProgress() as progress:
        report = import_world(settings.demo.sources, settings.world.dir, progress=progress)
    seconds = time.perf_counter() - started
    facts = report.facts
    console.rule("[bold]1. The world", align="left")
    sources = ", ".join(str(source) for source in settings.demo.sources)
    done = f"imported in {seconds:.1f} s" if report.created else "imported before, nothing changed"
    console.print(
        f"{sources} → {settings.world.dir}, version {facts.version}: {facts.entity_count:,} "
        f"entities ({done})"
    )
    tops = list(report.top_categories.items())[:6]
    console.print(f"[dim]{', '.join(f'{count:,} {top}' for top, count in tops)}, …")
    return facts
