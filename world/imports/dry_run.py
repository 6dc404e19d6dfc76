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
from spatial_udfs.entity_table import Geometries
from world.imports.combination import CombinedEntities, combine
from world.imports.extent import Extent, extent_of, placement_warnings, scale_warning
from world.imports.import_request import ImportRequest
from world.imports.projection import epsg_code
from world.long_work import Progress, silent
from world.sources.candidates import ProblemKind, ProblemSummary, summarize
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
        if entity.number_of_key(key) == peid:
            counts["a number, which is the peid"] += 1
        elif entity.is_hashed(key, peid):
            counts["text, of which the peid is the hash"] += 1
        else:
            counts["a key beside the peid of the source"] += 1
    return counts


def _first_rows(combined: CombinedEntities) -> list[FirstRow]:
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


_REPAIR: Final = "repair the shape, for example with 'Fix geometries' in QGIS or ST_MakeValid"
_EXTRACT: Final = "cut the extract with complete ways and relations ('osmium extract -s smart')"
_GEOMETRY: Final = "give the row a geometry, or leave it out of the source"

ADVICE: Final = {
    ProblemKind.DUPLICATE_IDENTICAL: "nothing needs to be done; the entity is there once",
    ProblemKind.DUPLICATE_CONFLICTING: "make the ids different: --id-field names another field, "
    "--key-prefix tells sources apart",
    ProblemKind.DUPLICATE_KEY: "name a field that is different in each row with --id-field",
    ProblemKind.MISSING_KEY: "fill the field in, or name another one with --id-field",
    ProblemKind.MALFORMED_KEY: "use text of at most 1,024 printable characters, or a whole number",
    ProblemKind.MISSING_PEID: "fill the field peid in, or remove it from all rows and use keys",
    ProblemKind.MALFORMED_PEID: "use whole numbers, or rename the field: peids come from keys then",
    ProblemKind.PEID_OUT_OF_RANGE: "use 0 to 2^63-1; in OSM, upload the element first",
    ProblemKind.PEID_COLLISION: "nothing needs to be done; the entity has its next peid",
    ProblemKind.MISSING_CATEGORIES: "--category gives one to all rows, --rules map attributes",
    ProblemKind.MALFORMED_CATEGORY: "write levels as a/b/c, without + and # and empty levels",
    ProblemKind.MALFORMED_NAME: "write the file in UTF-8",
    ProblemKind.MISSING_GEOMETRY: _GEOMETRY,
    ProblemKind.EMPTY_GEOMETRY: _GEOMETRY,
    ProblemKind.BROKEN_GEOMETRY: _REPAIR,
    ProblemKind.GEOMETRY_COLLECTION: "split it into one row for each part, or one multi-geometry",
    ProblemKind.UNKNOWN_GEOMETRY_TYPE: "turn curves and surfaces into lines and polygons",
    ProblemKind.NON_FINITE_COORDINATES: "correct the coordinates that are NaN or infinite",
    ProblemKind.OUTSIDE_PROJECTION: "look whether longitude and latitude are swapped, or the CRS "
    "is wrong; --srid chooses another CRS for the world",
    ProblemKind.INCOMPLETE_WAY: _EXTRACT,
    ProblemKind.INCOMPLETE_RELATION: _EXTRACT,
    ProblemKind.OPEN_AREA: "close the way in OSM, or leave it: it is no area",
}
