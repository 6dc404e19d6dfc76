"""Boxes around points that GEOS' relate locates one by one, whatever else it computes.

Such points are the ends of lines, the first corner of each polygon, and points. Where one of them
lies outside the box of the other geometry, relate records that it lies outside, without rounding.
So no matrix of the pair says "contains", "covers" or "equals". The whole box of a geometry gives no
such proof: between the ends of a line relate works with crossings that are rounded.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries

_LINE_TYPES: Final = (1, 2, 5)


def located_boxes(geometries: Geometries) -> NDArray[np.float64]:
    """Return west, south, east and north of located points of each geometry, none of them empty.

    The first point of a geometry is one, and the last of its last line.
    """
    coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
    numbers = np.arange(len(geometries))
    starts = np.searchsorted(owners, numbers)
    ends = np.searchsorted(owners, numbers, side="right") - 1
    is_line = np.isin(shapely.get_type_id(geometries), _LINE_TYPES)
    first, last = coordinates[starts], coordinates[np.where(is_line, ends, starts)]
    return np.concatenate([np.minimum(first, last), np.maximum(first, last)], axis=1)
