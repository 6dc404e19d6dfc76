"""Combines the readings of all sources into the checked, projected, unique rows of one version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from spatial_udfs.entity_table import Geometries
from world.imports.extent import SourcePlace, joined_places, source_place
from world.imports.projection import choose_crs, given_crs, project, utm_zones
from world.long_work import Progress, in_threads
from world.sources.candidates import Candidates, Problem, ProblemKind
from world.sources.readings import Reading
from world.versions import version_tables

NO_GEOMETRY: Final = -1
COLLECTION: Final = 7
# Point, LineString, Polygon and the Multi types: what DE-9IM is defined for.
SUPPORTED: Final = (0, 1, 3, 4, 5, 6)


def readable(rows: Candidates) -> tuple[Candidates, list[Problem]]:
    """Return the rows with finite coordinates of a supported type, in two dimensions."""
    types = shapely.get_type_id(rows.geometries)
    faults = {
        ProblemKind.MISSING_GEOMETRY: types == NO_GEOMETRY,
        ProblemKind.GEOMETRY_COLLECTION: types == COLLECTION,
        ProblemKind.UNKNOWN_GEOMETRY_TYPE: ~np.isin(types, (*SUPPORTED, NO_GEOMETRY, COLLECTION)),
        ProblemKind.EMPTY_GEOMETRY: np.isin(types, SUPPORTED) & shapely.is_empty(rows.geometries),
        ProblemKind.NON_FINITE_COORDINATES: ~finite(rows.geometries),
    }
    reasons = {
        ProblemKind.MISSING_GEOMETRY: "has no geometry",
        ProblemKind.GEOMETRY_COLLECTION: "is a geometry collection",
        ProblemKind.UNKNOWN_GEOMETRY_TYPE: "has a geometry that is no point, line or area",
        ProblemKind.EMPTY_GEOMETRY: "has an empty geometry",
        ProblemKind.NON_FINITE_COORDINATES: "has a coordinate that is not a finite number",
    }
    bad = np.zeros(len(rows), np.bool_)
    problems: list[Problem] = []
    for kind, mask in faults.items():
        problems += [
            rows.problem(int(position), kind, reasons[kind], kept=False)
            for position in np.flatnonzero(mask & ~bad)
        ]
        bad |= mask
    kept = rows.where(~bad)
    return replace(kept, geometries=shapely.force_2d(kept.geometries)), problems


def storable(rows: Candidates) -> tuple[Candidates, list[Problem]]:
    """Return the rows whose projected geometry is finite and valid by OGC Simple Features."""
    outside = ~finite(rows.geometries)
    broken = ~outside & ~shapely.is_valid(rows.geometries)
    problems = [
        rows.problem(
            int(position),
            ProblemKind.OUTSIDE_PROJECTION,
            "lies where the world's CRS is not defined",
            kept=False,
        )
        for position in np.flatnonzero(outside)
    ]
    problems += [
        rows.problem(
            int(position),
            ProblemKind.BROKEN_GEOMETRY,
            f"geometry is not valid: {shapely.is_valid_reason(rows.geometries[position])}",
            kept=False,
        )
        for position in np.flatnonzero(broken)
    ]
    return rows.where(~outside & ~broken), problems


def finite(geometries: Geometries) -> NDArray[np.bool_]:
    """Return whether all coordinates of each geometry are finite; true where there are none."""
    coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
    result = np.ones(len(geometries), np.bool_)
    result[owners[~np.isfinite(coordinates).all(axis=1)]] = False
    return result


class Occurrence(NamedTuple):
    """One row of a peid: its place in the source and its values. ``geometry`` is WKB."""

    source: str
    locator: str
    categories: Sequence[str]
    name: str | None
    geometry: bytes


def without_duplicates(sources: Sequence[Candidates]) -> tuple[list[Candidates], list[Problem]]:
    """Return the rows with each peid once, and a problem for each row that is left out."""
    counts = [len(rows) for rows in sources]
    peids = np.concatenate([np.empty(0, np.int64), *(rows.peids for rows in sources)])
    owner = np.repeat(np.arange(len(sources)), counts)
    begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    _, first, inverse = np.unique(peids, return_index=True, return_inverse=True)
    repeated = first[inverse] != np.arange(len(peids))

    def occurrence(position: int) -> Occurrence:
        rows = sources[owner[position]]
        return _occurrence(rows, position - int(begin[owner[position]]))

    problems = [
        duplicate(int(peids[later]), occurrence(int(first[inverse[later]])), occurrence(int(later)))
        for later in np.flatnonzero(repeated)
    ]
    kept = [
        rows.where(~repeated[begin[number] : begin[number + 1]])
        for number, rows in enumerate(sources)
    ]
    return kept, problems


def duplicate(peid: int, first: Occurrence, later: Occurrence) -> Problem:
    """Return the problem of a later row; an exact repetition has a kind of its own."""
    different = [
        word
        for word, mine, its in (
            ("categories", list(later.categories), list(first.categories)),
            ("name", later.name, first.name),
            ("geometry", later.geometry, first.geometry),
        )
        if mine != its
    ]
    where = f"{first.source}, {first.locator}"
    if different:
        kind = ProblemKind.DUPLICATE_CONFLICTING
        what = " and ".join(different)
        reason = f"has the peid of {where}, but other {what}; the first stays"
    else:
        kind = ProblemKind.DUPLICATE_IDENTICAL
        reason = f"repeats {where}"
    return Problem(kind, not different, peid, later.source, later.locator, reason)


def _occurrence(rows: Candidates, position: int) -> Occurrence:
    geometry: Any = rows.geometries[position]
    return Occurrence(
        source=rows.source,
        locator=rows.locator(int(rows.ordinals[position])),
        categories=rows.categories[position],
        name=rows.names[position],
        geometry=shapely.to_wkb(geometry),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The entities (UNVERSIONED_ENTITIES) of the next version, and its problems."""

    entities: pa.Table
    # The geometries of the same rows, as objects.
    geometries: Geometries
    crs: CRS
    problems: list[Problem]
    # Where the rows of each source lie, including rows that are left out.
    places: list[SourcePlace]


def combine(readings: Sequence[Reading], srid: int | None, tell: Progress) -> Combined:
    """Return the entities of all readings, in the given CRS or in one chosen for the data."""
    problems: list[Problem] = []
    usable: list[tuple[Candidates, CRS]] = []
    checked = in_threads(lambda reading: readable(reading.rows), readings)
    for number, (reading, (rows, found)) in enumerate(zip(readings, checked, strict=True), start=1):
        problems += [*reading.problems, *found]
        usable.append((rows, reading.crs))
        tell("checking", number, len(readings))
    places = joined_places(source_place(rows.source, rows.geometries, crs) for rows, crs in usable)
    crs = given_crs(srid) if srid is not None else _fitting_crs(usable)
    projected: list[Candidates] = []
    placed = (project(rows, source_crs, crs) for rows, source_crs in usable)
    for number, (clean, found) in enumerate(in_threads(storable, placed), start=1):
        problems += found
        projected.append(clean)
        tell("projecting", number, len(usable))
    unique, found = without_duplicates(projected)
    problems += found
    written = [*in_threads(Candidates.as_table, unique)] or [
        version_tables.UNVERSIONED_ENTITIES.empty_table()
    ]
    geometries = np.concatenate([np.empty(0, object), *(rows.geometries for rows in unique)])
    return Combined(pa.concat_tables(written), geometries, crs, problems, places)


def _fitting_crs(usable: Sequence[tuple[Candidates, CRS]]) -> CRS:
    def count_zones() -> Counter[int]:
        return sum((utm_zones(rows.geometries, crs) for rows, crs in usable), Counter())

    return choose_crs([crs for _, crs in usable], count_zones)
