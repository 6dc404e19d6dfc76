"""``spaps resolve DESCRIPTOR``: one neighborhood as tables, JSON, a map page or GeoJSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import shapely
from pyproj import Transformer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from schemas.entity import CATEGORIES, NAME, PEID
from schemas.language.explain import stage_words
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import notation
from schemas.membership import STAGE_NO
from spaps.cli.neighborhood_input import read_descriptor
from spaps.cli.output import print_warning, printable, printable_json, remarks, results, write_text
from spaps.map_page.page import PageTexts, map_page
from spatial_udfs.entity_keys import key_at
from spatial_udfs.entity_table import EntityTable, Geometries, Int64s
from spatial_udfs.exact.exact_resolver import ExactResolver, Resolution, resolve_named
from world.snapshot import load_snapshot
from world.versions.store import WorldStore
from world.versions.version_tables import VersionFacts


@dataclass(frozen=True, slots=True)
class ResolveOutput:
    """What to write and print of the result."""

    map_file: Path | None
    geojson_file: Path | None
    as_json: bool
    limit: int


def resolve_one(descriptor: str, world: str, version: int | None, output: ResolveOutput) -> None:
    """Resolve a neighborhood, then print and write what is output."""
    neighborhood = read_descriptor(descriptor)
    facts = WorldStore(world).facts_of(version)
    with remarks().status("loading the world"):
        table = load_snapshot(world, facts.version)
        resolver = ExactResolver(table)
    started = time.perf_counter()
    found = resolve_named(resolver, table, neighborhood)
    milliseconds = 1000 * (time.perf_counter() - started)
    neighborhood, resolution, missing = found
    warnings = found.warnings(resolver, table)
    for warning in warnings:
        print_warning(warning)
    # Files come first: when one cannot be written, no result is printed.
    _write(output.map_file, lambda: page_of(table, neighborhood, resolution, facts))
    _write(output.geojson_file, lambda: geojson(table, neighborhood, resolution))
    if output.as_json:
        shown = result_of(neighborhood, resolution, missing, warnings)
        results().out(printable_json(shown), highlight=False)
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
        results().print(stage_tables(table, resolution, words, output.limit))


def result_of(
    neighborhood: Neighborhood,
    resolution: Resolution,
    missing: Sequence[int | str],
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the whole result for JSON; stages that are not visible have no peids.

    Peids are texts, because JavaScript rounds numbers above 2^53.
    """
    stages = [
        {STAGE_NO: number, "visible": visible, "peids": _as_texts(members) if visible else []}
        for number, (members, visible) in enumerate(
            zip(resolution.stages, resolution.visible, strict=True), start=1
        )
    ]
    return {
        "name": neighborhood.name,
        "version": resolution.version,
        "stages": stages,
        "missingRefs": list(map(str, missing)),
        "warnings": list(warnings),
    }


def _as_texts(peids: Int64s) -> list[str]:
    return [str(peid) for peid in peids.tolist()]


def _write(path: Path | None, content: Callable[[], str]) -> None:
    if path is None:
        return
    write_text(path, content())
    remarks().print(f"written: {escape(printable(str(path)))}", soft_wrap=True)


def stage_tables(
    table: EntityTable, resolution: Resolution, words: Sequence[str], limit: int
) -> RenderableType:
    """Return one table for each stage, of at most ``limit`` rows (0: all)."""
    return Group(
        *(
            _stage_table(table, resolution, number, words[number - 1], limit)
            for number in range(1, len(resolution.stages) + 1)
        )
    )


def _stage_table(
    table: EntityTable, resolution: Resolution, number: int, words: str, limit: int
) -> RenderableType:
    members = resolution.stages[number - 1]
    hidden = "" if resolution.visible[number - 1] else " [dim](not in the result)[/]"
    count = "1 member" if len(members) == 1 else f"{len(members):,} members"
    title = Text.from_markup(
        f"\n[bold]stage {number}[/]: {escape(printable(words))}, {count}{hidden}"
    )
    if not len(members):
        return title
    return Group(title, _rows(table, members, limit))


def _rows(table: EntityTable, members: Int64s, limit: int) -> Table:
    shown = members[:limit] if limit else members
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    rows.add_column("peid", justify="right", no_wrap=True)
    if table.keys is not None:
        rows.add_column("key", overflow="fold")
    rows.add_column("name", overflow="fold")
    rows.add_column("categories", style="dim", overflow="fold")
    for position in table.positions_of(shown)[0].tolist():
        cells = [table.names[position] or "", ", ".join(table.categories_at(position))]
        if table.keys is not None:
            cells.insert(0, key_at(table, position))
        rows.add_row(str(table.peids[position]), *(Text(printable(cell)) for cell in cells))
    if len(shown) < len(members):
        rows.add_row("…", Text(f"and {len(members) - len(shown):,} more", style="dim"))
    return rows


WGS84: Final = 4326
# Seven decimals of a degree are a centimetre on the ground.
DECIMALS: Final = 7


def page_of(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution, facts: VersionFacts
) -> str:
    """Return the map page of a resolved neighborhood."""
    words = PageTexts(
        title=neighborhood.name or "Neighborhood",
        notation=notation(neighborhood),
        stages=stage_words(neighborhood, reference_names(table, neighborhood)),
        attribution=facts.attribution(),
    )
    return map_page(table, neighborhood, resolution, words)


def reference_names(table: EntityTable, neighborhood: Neighborhood) -> dict[int, str]:
    """Return the names of references by peid, where they exist and have one."""
    positions, _ = table.positions_of(np.array(neighborhood.refs, np.int64))
    return {
        int(table.peids[position]): table.names[position]
        for position in positions
        if table.names[position]
    }


def geojson(table: EntityTable, neighborhood: Neighborhood, resolution: Resolution) -> str:
    """Return one feature for each reference (``stageNo`` 0) and each row of the result.

    The key is its id. Peids are texts, because JavaScript rounds numbers above 2^53. A place is a
    reference without id and peid.
    """
    collection = {
        "type": "FeatureCollection",
        "features": list(_features(table, neighborhood, resolution)),
    }
    return json.dumps(collection, ensure_ascii=False)


def _features(
    table: EntityTable, neighborhood: Neighborhood, resolution: Resolution
) -> Iterator[dict[str, Any]]:
    references = np.array(neighborhood.refs, np.int64)
    shown = [
        (number, members)
        for number, members in enumerate(resolution.stages, start=1)
        if resolution.visible[number - 1]
    ]
    for number, peids in [(0, references), *shown]:
        positions, _ = table.positions_of(peids)
        geometries = _in_degrees(table.geometries[positions], table.srid)
        for position, geometry in zip(positions.tolist(), geometries, strict=True):
            yield {
                "type": "Feature",
                "id": key_at(table, position),
                "geometry": json.loads(shapely.to_geojson(geometry)),
                "properties": {
                    PEID: str(table.peids[position]),
                    STAGE_NO: number,
                    NAME: table.names[position],
                    CATEGORIES: list(table.categories_at(position)),
                },
            }
    for place in neighborhood.places:
        yield {
            "type": "Feature",
            "geometry": json.loads(shapely.to_geojson(shapely.from_wkt(place))),
            "properties": {PEID: None, STAGE_NO: 0, NAME: None, CATEGORIES: []},
        }


def _in_degrees(geometries: Geometries, srid: int) -> Geometries:
    """Return longitude and latitude; shells counter-clockwise as the RFC wants them."""
    to_degrees = Transformer.from_crs(srid, WGS84, always_xy=True)

    def transform(coordinates: Any) -> Any:
        east, north = to_degrees.transform(coordinates[:, 0], coordinates[:, 1])
        return np.round(np.column_stack([east, north]), DECIMALS)

    moved: Geometries = shapely.orient_polygons(shapely.transform(geometries, transform))
    return moved
