"""Geometries as arrays: read from WKB, their shapes, and boxes around points that GEOS locates."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.errors import WorldError
from schemas.topology.relations import SHAPE_COUNT
from spatial_udfs.entity_table import EntityTable, Geometries, Int64s

_POINT, _CLOSED_LINE, _LINE, _AREA = range(SHAPE_COUNT)
_COLLECTION_TYPE: Final = 7
_MULTI_LINE_TYPE: Final = 5
_LINE_TYPES: Final = (1, 2, 5)

ShapeCodes = NDArray[np.uint8]


def stored_geometries(written: NDArray[Any], peids: Int64s) -> Geometries:
    """Return geometries out of WKB; one that cannot be read is an error that names its entity."""
    read: Geometries = shapely.from_wkb(written, on_invalid="ignore")
    broken = np.flatnonzero(shapely.is_missing(read))
    if len(broken):
        raise WorldError(f"entity {peids[broken[0]]} has no geometry that can be read")
    return read


def shape_codes(table: EntityTable) -> ShapeCodes:
    """Return places in SHAPES; a geometry that the DE-9IM does not know is a WorldError."""
    return shapes_of(table.geometries, table.peids)


def shapes_of(geometries: Geometries, peids: Int64s) -> ShapeCodes:
    """Return the same for some entities, whose peids are for the error."""
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


def located_boxes(geometries: Geometries) -> NDArray[np.float64]:
    """Return west, south, east and north of located points of each geometry, none of them empty.

    GEOS' relate locates some points one by one, whatever else it computes: ends of lines, the first
    corner of each polygon, and points. Where one of them lies outside the box of the other
    geometry, relate records that it lies outside, without rounding. So no matrix of the pair says
    "contains", "covers" or "equals". The whole box of a geometry gives no such proof: between the
    ends of a line relate works with crossings that are rounded. Taken here are the first point of
    a geometry, and the last of its last line.
    """
    coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
    numbers = np.arange(len(geometries))
    starts = np.searchsorted(owners, numbers)
    ends = np.searchsorted(owners, numbers, side="right") - 1
    is_line = np.isin(shapely.get_type_id(geometries), _LINE_TYPES)
    first, last = coordinates[starts], coordinates[np.where(is_line, ends, starts)]
    return np.concatenate([np.minimum(first, last), np.maximum(first, last)], axis=1)
