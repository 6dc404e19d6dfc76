"""Which geometries a world can hold: the checks before and after projection."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries
from world.sources.candidates import Candidates
from world.sources.problems import Problem, ProblemKind

NO_GEOMETRY: Final = -1
COLLECTION: Final = 7
# Point, LineString, Polygon and the Multi types: what DE-9IM is defined for.
SUPPORTED: Final = (0, 1, 3, 4, 5, 6)


def readable(rows: Candidates) -> tuple[Candidates, list[Problem]]:
    """The rows with a geometry of a supported type and finite coordinates, in two dimensions."""
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
    """The rows whose projected geometry is finite and valid by OGC Simple Features."""
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
    """Whether all coordinates of each geometry are finite; true where there are none."""
    coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
    result = np.ones(len(geometries), np.bool_)
    result[owners[~np.isfinite(coordinates).all(axis=1)]] = False
    return result
