"""One neighborhood: resolved, printed, drawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from schemas.language.explain import neighborhood_warnings, stage_words
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import notation
from schemas.membership import STAGE_NO
from spaps.cli.descriptor_argument import read_descriptor
from spaps.cli.output_file import write_text
from spaps.cli.printable_text import printable, printable_json
from spaps.cli.resolution.attribution import attribution
from spaps.cli.resolution.reference_names import reference_names
from spaps.cli.resolution.resolution_geojson import geojson
from spaps.cli.resolution.resolution_table import stage_tables
from spaps.cli.terminal import remarks, results
from spaps.map_page.page import Words, map_page
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution
from world.snapshot import load_snapshot
from world.versions.store import WorldStore
from world.versions.version_facts import VersionFacts


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to do with the result."""

    map_file: Path | None
    geojson_file: Path | None
    as_json: bool
    limit: int


def resolve_one(descriptor: str, world: str, version: int | None, wanted: Wanted) -> None:
    """Resolve, then print and write whatever is wanted."""
    neighborhood = read_descriptor(descriptor)
    facts = WorldStore(world).facts_of(version)
    with remarks().status("loading the world"):
        table = load_snapshot(world, facts.version)
        resolver = ExactResolver(table)
    started = time.perf_counter()
    resolution = resolver.resolve(neighborhood)
    milliseconds = 1000 * (time.perf_counter() - started)
    _warn(neighborhood, resolution)
    if wanted.as_json:
        results().out(printable_json(result_of(neighborhood, resolution)), highlight=False)
    else:
        members = (
            "1 entity" if len(resolution.peids()) == 1 else f"{len(resolution.peids()):,} entities"
        )
        name = escape(printable(neighborhood.name or "neighborhood"))
        results().print(
            f"[bold]{name}[/]: {members} of {len(table):,} "
            f"in world version {table.version}, resolved in {milliseconds:.1f} ms",
            soft_wrap=True,
        )
        words = stage_words(neighborhood, reference_names(table, neighborhood))
        results().print(stage_tables(table, resolution, words, wanted.limit))
    _write(wanted.map_file, lambda: page_of(table, neighborhood, resolution, facts))
    _write(wanted.geojson_file, lambda: geojson(table, neighborhood, resolution))


def result_of(neighborhood: Neighborhood, resolution: Resolution) -> dict[str, Any]:
    """The result for programs, all of it; stages that are not visible have no peids."""
    stages = [
        {STAGE_NO: number, "visible": visible, "peids": members.tolist() if visible else []}
        for number, (members, visible) in enumerate(
            zip(resolution.stages, resolution.visible, strict=True), start=1
        )
    ]
    return {
        "name": neighborhood.name,
        "version": resolution.version,
        "stages": stages,
        "missingRefs": list(resolution.missing_refs),
        "warnings": list(neighborhood_warnings(neighborhood)),
    }


def page_of(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution, facts: VersionFacts
) -> str:
    """The map page, with all that it says."""
    words = Words(
        title=neighborhood.name or "Neighborhood",
        notation=notation(neighborhood),
        stages=stage_words(neighborhood, reference_names(table, neighborhood)),
        attribution=attribution(facts),
    )
    return map_page(table, neighborhood, resolution, words)


def _warn(neighborhood: Neighborhood, resolution: Resolution) -> None:
    warnings = list(neighborhood_warnings(neighborhood))
    if resolution.missing_refs:
        missing = ", ".join(str(peid) for peid in resolution.missing_refs)
        warnings.append(f"not in world version {resolution.version}: {missing}")
    for warning in warnings:
        remarks().print(f"[yellow]warning:[/] {escape(printable(warning))}", soft_wrap=True)


def _write(path: Path | None, content: Callable[[], str]) -> None:
    if path is None:
        return
    write_text(path, content())
    remarks().print(f"written: {escape(printable(str(path)))}", soft_wrap=True)
