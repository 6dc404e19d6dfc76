"""Reads sources as an import does, writes nothing, and says what would come out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import shapely
from pyproj import CRS

from schemas import entity
from schemas.entity_keys import is_hashed, number_of_key
from spatial_udfs.entity_table import Geometries
from world.imports.combination import Combined, combine
from world.imports.extent import Extent, extent_of, placement_warnings, scale_warning
from world.imports.import_request import ImportRequest
from world.imports.projection import epsg_code
from world.long_work import Progress, silent
from world.sources.candidates import ProblemSummary, summarize
from world.sources.readings import read_sources
from world.sources.source_files import kind_of

FIRST_ROWS: Final = 5


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """One source; ``crs`` is None and nothing else is known if no row of it could be read."""

    path: str
    kind: str
    rows: int
    crs: str | None
    extent: Extent | None


@dataclass(frozen=True, slots=True)
class FirstRow:
    """One of the entities that would come out."""

    key: str
    peid: int
    name: str | None
    categories: tuple[str, ...]
    geometry: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What an import would make; counts are by number of entities, most first."""

    sources: tuple[SourcePreview, ...]
    srid: int
    crs: str
    extent: Extent | None
    entities: int
    geometries: dict[str, int]
    categories: dict[str, int]
    ids: dict[str, int]
    first_rows: tuple[FirstRow, ...]
    problems: tuple[ProblemSummary, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def dry_run(request: ImportRequest, progress: Progress | None = None) -> DryRun:
    """Return what the import would make, without writing anything."""
    tell = progress or silent
    readings = list(read_sources(request.sources, tell))
    combined = combine(readings, request.srid, tell, request.snap)
    crs_of = {reading.rows.source: reading.crs for reading in readings}
    read: Counter[str] = Counter()
    for reading in readings:
        left_out = sum(not problem.kept for problem in reading.problems)
        read[reading.rows.source] += len(reading.rows) + left_out
    extents = {place.source: place.extent for place in combined.places}
    extent = extent_of(combined.geometries, combined.crs)
    warnings = placement_warnings(combined.places) or scale_warning(extent, combined.crs)
    kinds = {str(source.path): kind_of(source.path).value for source in request.sources}
    return DryRun(
        sources=tuple(
            SourcePreview(
                source, kinds.get(source, "osm"), read[source], _crs_name(crs_of[source]),
                extents.get(source),
            )
            for source in crs_of
        ),
        srid=epsg_code(combined.crs),
        crs=combined.crs.name,
        extent=extent,
        entities=combined.entities.num_rows,
        geometries=_most_first(_types(combined.geometries)),
        categories=_most_first(_categories(combined.entities)),
        ids=_most_first(_ids(combined.entities)),
        first_rows=tuple(_first_rows(combined)),
        problems=summarize(combined.problems),
        notes=combined.notes(),
        warnings=tuple(warnings),
    )  # fmt: skip


_TYPES: Final = {kind.value: kind.name.lower() for kind in shapely.GeometryType}


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _types(geometries: Geometries) -> Counter[str]:
    return Counter(_TYPES[kind] for kind in shapely.get_type_id(geometries).tolist())


def _categories(entities: pa.Table) -> Counter[str]:
    counted = pc.value_counts(pc.list_flatten(entities.column(entity.CATEGORIES))).to_pylist()
    return Counter({each["values"]: each["counts"] for each in counted})


def _ids(entities: pa.Table) -> Counter[str]:
    """Return how many entities got their peids in which way."""
    counts: Counter[str] = Counter()
    keys, peids = (entities.column(name).to_pylist() for name in (entity.KEY, entity.PEID))
    for key, peid in zip(keys, peids, strict=True):
        if number_of_key(key) == peid:
            counts["a number, which is the peid"] += 1
        elif is_hashed(key, peid):
            counts["text, of which the peid is the hash"] += 1
        else:
            counts["a key beside the peid of the source"] += 1
    return counts


def _first_rows(combined: Combined) -> list[FirstRow]:
    rows = combined.entities.slice(0, FIRST_ROWS).to_pylist()
    return [
        FirstRow(
            key=row[entity.KEY],
            peid=row[entity.PEID],
            name=row[entity.NAME],
            categories=tuple(row[entity.CATEGORIES]),
            geometry=_described(geometry),
        )
        for row, geometry in zip(rows, combined.geometries, strict=False)
    ]


def _described(geometry: Any) -> str:
    """Return type and size of a geometry in metres, as the world has it."""
    kind = str(geometry.geom_type)
    if kind.endswith("Polygon"):
        return f"{kind}, {geometry.area:,.0f} m²"
    if kind.endswith("LineString"):
        return f"{kind}, {geometry.length:,.0f} m"
    return kind


def _crs_name(crs: CRS) -> str:
    code = crs.to_epsg()
    return f"EPSG:{code}" if code else crs.name
