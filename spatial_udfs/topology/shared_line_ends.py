"""A repair of two matrix cells that GEOS gets wrong for some multi-lines.

For a multi-line of which some parts end in each other, GEOS can overlook that a boundary
point of it lies outside of the other geometry (locationtech/jts issue 1175, in GEOS up to
3.14). No named relation looks at those cells without the interior's, but ``Relate`` may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries, Positions

Covers: TypeAlias = Callable[[Any, Any], Any]

_MULTI_LINE_TYPE: Final = 5
_BOUNDARY_EXTERIOR: Final = 5
_EXTERIOR_BOUNDARY: Final = 7


class SharedLineEnds:
    """Knows which geometries are affected; there are few or none in a world."""

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
    """The matrix with a cell of dimension 0, or none: boundaries of lines are points."""
    return matrix[:cell] + ("0" if meets else "F") + matrix[cell + 1 :]
