"""Pairs of straight segments that share an end: most pairs of a road network, without GEOS.

Two segments from a common end meet nowhere else unless they leave it in the same direction.
That shows in the signs of a cross and a dot product; where rounding leaves a sign in doubt,
nothing is claimed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries, Positions
from spatial_udfs.topology.pair_kinds import Bools

# The matrix of two lines that meet in one end of each and nowhere else.
SHARED_END_MATRIX: Final = "FF1F00102"

_LINE_TYPE: Final = 1
# Each product of two differences is off by less than this share of itself (four roundings).
_ROUNDING: Final = 8 * np.finfo(np.float64).eps

Floats = NDArray[np.float64]


class StraightSegments:
    """The ends of all lines of two points."""

    def __init__(self, geometries: Geometries) -> None:
        """Find them; a line whose points are the same is none."""
        two_points = (shapely.get_type_id(geometries) == _LINE_TYPE) & (
            shapely.get_num_coordinates(geometries) == 2
        )
        places = np.flatnonzero(two_points)
        ends = shapely.get_coordinates(geometries[places]).reshape(-1, 4)
        real = (ends[:, :2] != ends[:, 2:]).any(axis=1)
        self._is_segment = np.zeros(len(geometries), np.bool_)
        self._is_segment[places[real]] = True
        self._ends = np.zeros((len(geometries), 4))
        self._ends[places] = ends

    def share_an_end_only(self, first: Positions, second: Positions) -> Bools:
        """Pairs of segments that surely have one end in common and no other point."""
        result = self._is_segment[first]
        if result.any():
            result &= self._is_segment[second]
            both = np.flatnonzero(result)
            result[both] = _meet_in_one_end(self._ends[first[both]], self._ends[second[both]])
        return result


def _meet_in_one_end(first: Floats, second: Floats) -> Bools:
    starts_meet, starts_end = _same(first, 0, second, 0), _same(first, 0, second, 2)
    end_starts, ends_meet = _same(first, 2, second, 0), _same(first, 2, second, 2)
    # Directions away from the common end; with two common ends no end is left to look at.
    from_start = starts_meet | starts_end
    to_start = starts_meet | end_starts
    shared = from_start ^ (end_starts | ends_meet)
    x1, y1 = _away(first, from_start)
    x2, y2 = _away(second, to_start)
    left, right = x1 * y2, y1 * x2
    aside = np.abs(left - right) > _ROUNDING * (np.abs(left) + np.abs(right))
    along_x, along_y = x1 * x2, y1 * y2
    opposite = along_x + along_y < -_ROUNDING * (np.abs(along_x) + np.abs(along_y))
    result: Bools = shared & (aside | opposite)
    return result


def _same(first: Floats, i: int, second: Floats, j: int) -> Bools:
    same: Bools = (first[:, i] == second[:, j]) & (first[:, i + 1] == second[:, j + 1])
    return same


def _away(ends: Floats, from_start: Bools) -> tuple[Floats, Floats]:
    sign = np.where(from_start, 1.0, -1.0)
    return sign * (ends[:, 2] - ends[:, 0]), sign * (ends[:, 3] - ends[:, 1])
