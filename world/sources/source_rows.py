"""Sources of any kind as rows in their own CRS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyproj import CRS

from world.imports.import_options import ImportOptions
from world.imports.projection import WGS84
from world.progress import Progress
from world.sources import geoparquet as geoparquet_source
from world.sources.candidates import Candidates
from world.sources.geojson import read_geojson
from world.sources.problems import Problem
from world.sources.source_files import SourceKind, kind_of


@dataclass(frozen=True, slots=True)
class Reading:
    """Some rows of a source, and the problems met on the way to them."""

    rows: Candidates
    crs: CRS
    problems: list[Problem]


def read_sources(
    paths: Sequence[Path], options: ImportOptions, tell: Progress
) -> Iterator[Reading]:
    """All rows of all sources in their order; all OSM extracts together, where the first stands."""
    extracts = [path for path in paths if kind_of(path) is SourceKind.OSM]
    for path in paths:
        match kind_of(path):
            case SourceKind.OSM if extracts:
                # Its reader is loaded where there is something to read: it takes long.
                from world.sources.osm.entities import read_osm  # noqa: PLC0415

                rows, problems = read_osm(extracts, options.rules, tell)
                extracts = []
                yield Reading(rows, WGS84, problems)
            case SourceKind.GEOJSON:
                tell(f"reading {path.name}", 0, None)
                rows, problems = read_geojson(
                    path, id_field=options.id_field, category=options.category
                )
                yield Reading(rows, WGS84, problems)
            case SourceKind.GEOPARQUET:
                yield from _read_geoparquet(path, options, tell)


def _read_geoparquet(path: Path, options: ImportOptions, tell: Progress) -> Iterator[Reading]:
    layout = geoparquet_source.read_layout(
        path, id_field=options.id_field, category=options.category
    )
    total, done = geoparquet_source.row_count(path), 0
    for rows, problems in geoparquet_source.read_batches(path, layout):
        done = min(done + geoparquet_source.BATCH_ROWS, total)
        tell(f"reading {path.name}", done, total)
        yield Reading(rows, layout.crs, problems)
