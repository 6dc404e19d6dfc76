"""Lines that meet in their ends: matrices without GEOS, and two cells that GEOS gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Bools, Floats, Geometries, Positions

# The matrix of two lines that meet in one end of each and nowhere else.
SHARED_END_MATRIX: Final = "FF1F00102"

_LINE_TYPE: Final = 1
# Each product of two differences is off by less than this share of itself (four roundings).
_ROUNDING: Final = 8 * np.finfo(np.float64).eps


class StraightSegments:
    """Finds pairs of straight segments that share an end: most pairs of a road network.

    Two segments from a common end meet nowhere else unless they leave it in the same direction.
    That shows in the signs of a cross and a dot product; where rounding leaves a sign in doubt,
    nothing is claimed.
    """

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
        """Return pairs of segments that surely have one end in common and no other point."""
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


Covers: TypeAlias = Callable[[Any, Any], Any]

_MULTI_LINE_TYPE: Final = 5
_BOUNDARY_EXTERIOR: Final = 5
_EXTERIOR_BOUNDARY: Final = 7


class SharedLineEnds:
    """Repairs two matrix cells of some multi-lines; there are few or none in a world.

    For a multi-line of which some parts end in each other, GEOS can overlook that a boundary
    point of it lies outside of the other geometry (locationtech/jts issue 1175, in GEOS up to
    3.14). No named relation looks at those cells without the interior's, but ``Relate`` may.
    """

    def __init__(self, geometries: Geometries) -> None:
        """Find multi-lines that have a boundary but not at all ends of their parts."""
        multi_lines = np.flatnonzero(shapely.get_type_id(geometries) == _MULTI_LINE_TYPE)
        boundaries: Geometries = np.asarray(shapely.boundary(geometries[multi_lines]))
        points = shapely.get_num_geometries(boundaries)
        ends = 2 * shapely.get_num_geometries(geometries[multi_lines])
        affected = (points > 0) & (points < ends)
        self._is_affected = np.zeros(len(geometries), np.bool_)
        self._is_affected[multi_lines[affected]] = True
        self._boundaries: dict[int, Any] = dict(
            zip(multi_lines[affected].tolist(), boundaries[affected], strict=True)
        )

    def repair(
        self,
        matrices: NDArray[Any],
        geometries: Geometries,
        others: Geometries,
        first: Positions,
        second: Positions,
        covers: Covers = shapely.covers,
    ) -> None:
        """Set the two cells in the matrices of (geometries, others), found at the positions.

        ``covers`` tells whether all points of its second geometry lie in the first one.
        """
        if not self._boundaries:
            return
        for place in np.flatnonzero(self._is_affected[first]):
            boundary = self._boundaries[int(first[place])]
            outside = not covers(others[place], boundary)
            matrices[place] = _with_cell(matrices[place], _BOUNDARY_EXTERIOR, outside)
        for place in np.flatnonzero(self._is_affected[second]):
            boundary = self._boundaries[int(second[place])]
            outside = not covers(geometries[place], boundary)
            matrices[place] = _with_cell(matrices[place], _EXTERIOR_BOUNDARY, outside)


def _with_cell(matrix: str, cell: int, meets: bool) -> str:
    """Return the matrix with a cell of dimension 0, or none: boundaries of lines are points."""
    return matrix[:cell] + ("0" if meets else "F") + matrix[cell + 1 :]
