"""Checks the geometries of an import: what cannot be stored, and what nearly touches.

A near miss is a pair of entities that are closer than a millimetre and share no point. Straight
lines of a source are not straight after projection, so a border that ended on the edge of another
entity can miss it by micrometres, and the two do not touch any more.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from spatial_udfs.entity_table import Geometries, Int64s
from world.imports.projection import in_degrees
from world.long_work import Progress
from world.sources.candidates import Candidates, Problem, ProblemKind

NO_GEOMETRY: Final = -1
COLLECTION: Final = 7
# Point, LineString, Polygon and the Multi types: what DE-9IM is defined for.
SUPPORTED: Final = (0, 1, 3, 4, 5, 6)
# What GEOS says of an invalid geometry: the reason, and the coordinates where it found it.
_WHERE: Final = re.compile(r"(.+?)\[(\S+) (\S+)\]")

NEAR_METRES: Final = 0.001
# How many entities are compared with all others at once. Few, because each may meet all others.
CHUNK: Final = 1_024
# From so many coordinates on, an index of the edges of a geometry is faster than no index.
LARGE: Final = 16


def readable(rows: Candidates) -> tuple[Candidates, list[Problem]]:
    """Return the rows with finite coordinates of a supported type, in two dimensions."""
    types = shapely.get_type_id(rows.geometries)
    is_supported = np.isin(types, SUPPORTED)
    faults = (
        (ProblemKind.MISSING_GEOMETRY, types == NO_GEOMETRY, "has no geometry"),
        (ProblemKind.GEOMETRY_COLLECTION, types == COLLECTION, "is a geometry collection"),
        (
            ProblemKind.UNKNOWN_GEOMETRY_TYPE,
            ~is_supported & (types != NO_GEOMETRY) & (types != COLLECTION),
            "has a geometry that is no point, line or area",
        ),
        (
            ProblemKind.EMPTY_GEOMETRY,
            is_supported & shapely.is_empty(rows.geometries),
            "has an empty geometry",
        ),
        (
            ProblemKind.NON_FINITE_COORDINATES,
            ~finite(rows.geometries),
            "has a coordinate that is not a finite number",
        ),
    )
    bad = np.zeros(len(rows), np.bool_)
    problems: list[Problem] = []
    for kind, mask, reason in faults:
        problems += [
            rows.problem(int(position), kind, reason, kept=False)
            for position in np.flatnonzero(mask & ~bad)
        ]
        bad |= mask
    kept = rows.where(~bad)
    return replace(kept, geometries=shapely.force_2d(kept.geometries)), problems


def storable(rows: Candidates, crs: CRS) -> tuple[Candidates, list[Problem]]:
    """Return the rows whose geometry, projected into ``crs``, is finite and valid by OGC."""
    outside = ~finite(rows.geometries)
    broken = ~outside & ~shapely.is_valid(rows.geometries)
    kind, reason = ProblemKind.OUTSIDE_PROJECTION, "lies where the world's CRS is not defined"
    problems = [rows.problem(int(at), kind, reason, kept=False) for at in np.flatnonzero(outside)]
    for position in np.flatnonzero(broken):
        reason = _fault(rows.geometries[position], crs)
        problems.append(
            rows.problem(int(position), ProblemKind.BROKEN_GEOMETRY, reason, kept=False)
        )
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


def near_misses(geometries: Geometries, tell: Progress) -> Int64s:
    """Return the near misses as rows of two positions, the lower one first.

    Of geometries that are equal point by point only the first one counts: thousands at one place
    would be millions of pairs.
    """
    first = _first_of_equals(geometries)
    distinct = geometries[first]
    sizes = shapely.get_num_coordinates(distinct).astype(np.int64)
    large = distinct[sizes >= LARGE]
    # Indexes make this search several times faster. They belong to the objects: none is left there.
    shapely.prepare(large)
    try:
        pairs = first[_of_distinct(distinct, sizes, tell)]
    finally:
        shapely.destroy_prepared(large)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _first_of_equals(geometries: Geometries) -> Int64s:
    coded = pa.array(shapely.to_wkb(geometries), pa.large_binary()).dictionary_encode()
    first: Int64s = np.unique(coded.indices.to_numpy(), return_index=True)[1].astype(np.int64)
    return np.sort(first)


def _of_distinct(geometries: Geometries, sizes: Int64s, tell: Progress) -> Int64s:
    tree = shapely.STRtree(geometries)
    grown = shapely.bounds(geometries) + np.array([-1, -1, 1, 1]) * NEAR_METRES
    boxes: Any = shapely.box(*grown.T)
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, len(geometries), CHUNK):
        left, right = tree.query(boxes[start : start + CHUNK])
        left = left + start
        once = left < right
        left, right = left[once], right[once]
        # The geometry with an index goes first.
        swapped = sizes[left] < sizes[right]
        one, other = np.where(swapped, right, left), np.where(swapped, left, right)
        apart = ~shapely.intersects(geometries[one], geometries[other])
        one, other = one[apart], other[apart]
        near = shapely.dwithin(geometries[one], geometries[other], NEAR_METRES)
        pairs = np.column_stack([one[near], other[near]])
        found.append(np.sort(pairs, axis=1))
        tell("looking for near misses", min(start + CHUNK, len(geometries)), len(geometries))
    return np.concatenate(found)
