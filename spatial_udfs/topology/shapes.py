"""The shape of each geometry, as a small number: all it contributes to a far pair's matrix."""

from __future__ import annotations

from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.errors import WorldError
from schemas.topology.relations import Shape
from spatial_udfs.entity_table import EntityTable, Geometries, Int64s

SHAPES: Final = tuple(Shape)
SHAPE_COUNT: Final = len(SHAPES)

_POINT, _CLOSED_LINE, _LINE, _AREA = range(SHAPE_COUNT)
_COLLECTION_TYPE: Final = 7
_MULTI_LINE_TYPE: Final = 5

ShapeCodes = NDArray[np.uint8]


def shape_codes(table: EntityTable) -> ShapeCodes:
    """Positions in SHAPES; a geometry without a place in the DE-9IM is an error of the world."""
    return shapes_of(table.geometries, table.peids)


def shapes_of(geometries: Geometries, peids: Int64s) -> ShapeCodes:
    """The same for some entities, whose peids are for the error."""
    types = shapely.get_type_id(geometries)
    unusable = (types < 0) | (types == _COLLECTION_TYPE) | shapely.is_empty(geometries)
    if unusable.any():
        peid = peids[np.flatnonzero(unusable)[0]]
        raise WorldError(f"entity {peid} has no geometry that relations are defined for")
    dimensions = shapely.get_dimensions(geometries)
    codes = np.full(len(geometries), _AREA, np.uint8)
    codes[dimensions == 0] = _POINT
    codes[dimensions == 1] = _LINE
    lines = np.flatnonzero(dimensions == 1)
    closed = shapely.is_closed(geometries[lines])
    # A multi-line can be without boundary although none of its parts is closed.
    multi = np.flatnonzero(types[lines] == _MULTI_LINE_TYPE)
    closed[multi] = shapely.is_empty(shapely.boundary(geometries[lines[multi]]))
    codes[lines[closed]] = _CLOSED_LINE
    return codes
