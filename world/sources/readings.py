"""Reads the rows of all sources in their own CRS, each by its options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyproj import CRS

from schemas.errors import SettingsError
from world.imports.projection import WGS84
from world.long_work import Progress
from world.sources.candidates import Candidates, Problem
from world.sources.geojson import read_geojson
from world.sources.parquet import (
    BATCH_ROWS,
    delta_layout,
    delta_table_rows,
    parquet_layout,
    parquet_rows,
    row_count,
)
from world.sources.source_fields import ColumnLayout
from world.sources.source_files import SourceKind, kind_of
from world.sources.source_options import SourceOptions


@dataclass(frozen=True, slots=True)
class Source:
    """One source: its path and its options."""

    path: Path
    options: SourceOptions


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Some rows of a source, and the problems found in reading them."""

    rows: Candidates
    crs: CRS
    problems: list[Problem]


def read_sources(sources: Sequence[Source], tell: Progress) -> Iterator[SourceRows]:
    """Yield the rows of all sources in order; all OSM extracts at the place of the first."""
    extracts = [source for source in sources if kind_of(source.path) is SourceKind.OSM]
    for source in sources:
        kind = kind_of(source.path)
        if kind is not SourceKind.OSM:
            yield from _read(source, kind, tell)
        elif extracts:
            yield _read_osm(extracts, tell)
            extracts = []


def _read_osm(extracts: Sequence[Source], tell: Progress) -> SourceRows:
    # Imported only when needed, because loading osmium takes long.
    from world.sources.osm.entities import read_osm  # noqa: PLC0415

    rules = extracts[0].options.osm_rules()
    if any(each.options.osm_rules().sha256 != rules.sha256 for each in extracts):
        raise SettingsError("all OSM extracts of an import are one map: give them the same rules")
    rows, problems = read_osm([each.path for each in extracts], rules, tell)
    return SourceRows(rows, WGS84, problems)


def _read(source: Source, kind: SourceKind, tell: Progress) -> Iterator[SourceRows]:
    path, options = source.path, source.options
    tell(f"reading {path.name}", 0, None)
    match kind:
        case SourceKind.GEOJSON | SourceKind.GEOJSON_LINES:
            by_lines = kind is SourceKind.GEOJSON_LINES
            yield SourceRows(*read_geojson(path, options, by_lines=by_lines))
        case SourceKind.GEOPARQUET:
            layout = parquet_layout(path, options)
            yield from _told(parquet_rows(path, layout), layout, row_count(path), path, tell)
        case SourceKind.DELTA:
            layout = delta_layout(path, options)
            yield from _told(delta_table_rows(path, layout), layout, None, path, tell)
        case SourceKind.SHAPEFILE | SourceKind.GEOPACKAGE:
            from world.sources.vector_files import read_layer  # noqa: PLC0415

            layout, batches = read_layer(path, options)
            yield from _told(batches, layout, None, path, tell)
        case _:
            raise SettingsError(f"{path}: an import file cannot be one of several sources")


def _told(
    batches: Iterable[tuple[Candidates, list[Problem]]],
    layout: ColumnLayout,
    total: int | None,
    path: Path,
    tell: Progress,
) -> Iterator[SourceRows]:
    """Yield the batches as readings, and tell how many rows are read."""
    done = 0
    for rows, problems in batches:
        done += BATCH_ROWS
        tell(f"reading {path.name}", done if total is None else min(done, total), total)
        yield SourceRows(rows, layout.geometry.crs, problems)
