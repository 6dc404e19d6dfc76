"""Combines the readings of all sources into the checked, projected, unique rows of one version."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from schemas import entity
from spatial_udfs.entity_table import Geometries, Int64s
from world.imports.duplicates import with_unique_keys, without_duplicates
from world.imports.extent import SourcePlace, joined_places, source_place
from world.imports.near_misses import near_misses
from world.imports.projection import choose_crs, given_crs, in_degrees, project, utm_zones
from world.imports.snapping import SnapResult, snap
from world.long_work import Progress, in_threads
from world.sources.candidates import Candidates, Problem, ProblemKind
from world.sources.readings import SourceRows
from world.versions import version_tables

NO_GEOMETRY: Final = -1
COLLECTION: Final = 7
ENTITY: Final = ("entity", "entities")
# Point, LineString, Polygon and the Multi types: what DE-9IM is defined for.
SUPPORTED: Final = (0, 1, 3, 4, 5, 6)
# What GEOS says of an invalid geometry: the reason, and the coordinates where it found it.
_WHERE: Final = re.compile(r"(.+?)\[(\S+) (\S+)\]")


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


def storable(rows: Candidates, crs: CRS) -> tuple[Candidates, list[Problem]]:
    """Return the rows whose geometry, projected into ``crs``, is finite and valid by OGC."""
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
            _fault(rows.geometries[position], crs),
            kept=False,
        )
        for position in np.flatnonzero(broken)
    ]
    return rows.where(~outside & ~broken), problems


def _fault(geometry: Any, crs: CRS) -> str:
    """Return why a geometry is not valid, and where on the Earth: sources differ in their CRS."""
    reason = shapely.is_valid_reason(geometry)
    found = _WHERE.fullmatch(reason)
    if found is None:
        return f"geometry is not valid: {reason}"
    [place] = in_degrees(np.array([[float(found[2]), float(found[3])]]), crs)
    where = f"longitude {place[0]:.6f}, latitude {place[1]:.6f}"
    return f"geometry is not valid: {found[1].lower()} at {where}"


def finite(geometries: Geometries) -> NDArray[np.bool_]:
    """Return whether all coordinates of each geometry are finite; true where there are none."""
    coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
    result = np.ones(len(geometries), np.bool_)
    result[owners[~np.isfinite(coordinates).all(axis=1)]] = False
    return result


@dataclass(frozen=True, slots=True, eq=False)
class CombinedEntities:
    """The entities (UNVERSIONED_ENTITIES) of the next version, and its problems."""

    entities: pa.Table
    # The geometries of the same rows, as objects.
    geometries: Geometries
    crs: CRS
    problems: list[Problem]
    # Where the rows of each source lie, including rows that are left out.
    places: list[SourcePlace]
    # Pairs of rows that are closer than a millimetre and do not touch.
    near_misses: Int64s
    # What was inserted, if vertices were to be.
    snapped: SnapResult | None = None

    def notes(self) -> tuple[str, ...]:
        """Return what there is to say about near misses and inserted vertices."""
        notes = []
        if self.snapped is not None:
            vertices = counted(self.snapped.inserted, "vertex", "vertices")
            joined = f", joined {self.snapped.joined:,}" if self.snapped.joined else ""
            changed = counted(len(self.snapped.changed), *ENTITY)
            notes.append(f"inserted {vertices}{joined}, which changed {changed}")
            if len(self.snapped.refused):
                refused = counted(len(self.snapped.refused), *ENTITY)
                notes.append(
                    f"left {refused} as before: a vertex would have made the shape invalid"
                )
        if len(self.near_misses):
            keys = self.entities.column(entity.KEY)
            first, second = (keys[int(row)].as_py() for row in self.near_misses[0])
            pairs = counted(len(self.near_misses), "near miss", "near misses")
            notes.append(
                f"{pairs}: pairs closer than 1 mm that do not touch, such as {first} and {second}; "
                "--snap 0.001 inserts the missing vertices"
            )
        return tuple(notes)


def counted(count: int, one: str, several: str) -> str:
    """Return a number with its noun: 1 vertex, 2 vertices."""
    return f"{count:,} {one if count == 1 else several}"


def combine(
    readings: Sequence[SourceRows], srid: int | None, tell: Progress, snap_metres: float = 0
) -> CombinedEntities:
    """Return the entities of all readings, in the given CRS or in one chosen for the data.

    ``snap_metres``: the distance up to which missing vertices are inserted; 0 inserts none.
    """
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
    valid = in_threads(lambda rows: storable(rows, crs), placed)
    for number, (clean, found) in enumerate(valid, start=1):
        problems += found
        projected.append(clean)
        tell("projecting", number, len(usable))
    unique, found = without_duplicates(projected)
    problems += found
    unique, found = with_unique_keys(unique)
    problems += found
    geometries = np.concatenate([np.empty(0, object), *(rows.geometries for rows in unique)])
    snapped = None
    if snap_metres:
        snapped = snap(geometries, snap_metres, tell)
        geometries = snapped.geometries
        ends = np.cumsum([len(rows) for rows in unique])[:-1]
        parts = np.split(geometries, ends) if unique else []
        unique = [replace(rows, geometries=part) for rows, part in zip(unique, parts, strict=True)]
    written = [*in_threads(Candidates.as_table, unique)] or [
        version_tables.UNVERSIONED_ENTITIES.empty_table()
    ]
    entities = pa.concat_tables(written)
    misses = near_misses(geometries, tell)
    return CombinedEntities(entities, geometries, crs, problems, places, misses, snapped)


def _fitting_crs(usable: Sequence[tuple[Candidates, CRS]]) -> CRS:
    def count_zones() -> Counter[int]:
        return sum((utm_zones(rows.geometries, crs) for rows, crs in usable), Counter())

    return choose_crs([crs for _, crs in usable], count_zones)
