"""Sources of any kind as rows in their own CRS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyproj import CRS

from world import geoparquet_source
from world.candidates import Candidates
from world.geojson_source import read_geojson
from world.import_options import ImportOptions
from world.osm.entities import read_osm
from world.problems import Problem
from world.progress import Progress
from world.projection import WGS84
from world.sources import SourceKind


@dataclass(frozen=True, slots=True)
class Reading:
    """Some rows of a source, and the problems met on the way to them."""

    rows: Candidates
    crs: CRS
    problems: list[Problem]


def read_source(
    path: Path, kind: SourceKind, options: ImportOptions, tell: Progress
) -> Iterator[Reading]:
    """All rows of a source, in one or several readings."""
    phase = f"reading {path.name}"
    match kind:
        case SourceKind.OSM:
            yield Reading(*_with_crs(*read_osm(path, options.rules, tell)))
        case SourceKind.GEOJSON:
            tell(phase, 0, None)
            found = read_geojson(path, id_field=options.id_field, category=options.category)
            yield Reading(*_with_crs(*found))
        case SourceKind.GEOPARQUET:
            layout = geoparquet_source.read_layout(
                path, id_field=options.id_field, category=options.category
            )
            total, done = geoparquet_source.row_count(path), 0
            for rows, problems in geoparquet_source.read_batches(path, layout):
                done = min(done + geoparquet_source.BATCH_ROWS, total)
                tell(phase, done, total)
                yield Reading(rows, layout.crs, problems)


def _with_crs(rows: Candidates, problems: list[Problem]) -> tuple[Candidates, CRS, list[Problem]]:
    return rows, WGS84, problems
