"""Decodes geometries from WKB and WKT.

GEOS reads nested collections by recursion. Tens of thousands of levels exhaust the stack and end
the process, so the depth of a WKB or WKT is checked first, without reading its coordinates.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries
from world.sources.candidates import ProblemKind, objects

# Stands for a geometry with arcs, which shapely cannot read.
CURVE: Final = object()
# Far more than any usable geometry has: those are nested once.
MOST_LEVELS: Final = 1_000
# The shortest header of a collection: byte order, type, number of parts.
HEADER_BYTES: Final = 9
POINT, LINE, POLYGON = 1, 2, 3
COLLECTIONS: Final = (4, 5, 6, 7)
# Flags of PostGIS in the type: Z, M, and an SRID that follows. ISO adds 1000, 2000 or 3000.
_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000


def decoded_geometries(wkb: NDArray[Any]) -> tuple[Geometries, dict[int, ProblemKind]]:
    """Return the geometries (None if missing), and by position the problem of unreadable ones."""
    written = np.array([value is not None for value in wkb], np.bool_)
    deep = [position for position, value in enumerate(wkb) if is_too_deep(value)]
    if deep:
        wkb = wkb.copy()
        wkb[deep] = None
    try:
        with np.errstate(invalid="ignore"):  # coordinates that are NaN are found later
            geometries = shapely.from_wkb(wkb, on_invalid="ignore")
        curved: list[int] = []
    except NotImplementedError:
        # One curve stops the whole array, so the curves are found by reading one by one.
        geometries = np.array([_decoded_alone(value) for value in wkb], object)
        curved = [n for n, geometry in enumerate(geometries) if geometry is CURVE]
        geometries[curved] = None
    lost = np.flatnonzero(written & shapely.is_missing(geometries))
    faults = dict.fromkeys(lost.tolist(), ProblemKind.BROKEN_GEOMETRY)
    return geometries, faults | dict.fromkeys(curved, ProblemKind.UNKNOWN_GEOMETRY_TYPE)


def _decoded_alone(wkb: bytes | None) -> Any:
    try:
        return shapely.from_wkb(wkb, on_invalid="ignore")
    except NotImplementedError:
        return CURVE


def is_too_deep(wkb: bytes | None) -> bool:
    """Return whether the collections of a WKB are nested too deep for GEOS to read."""
    if wkb is None or len(wkb) <= MOST_LEVELS * HEADER_BYTES:
        return False
    try:
        return _is_deeper(wkb)
    except (struct.error, IndexError):
        return False  # truncated before that depth: the reader reports it


def _is_deeper(wkb: bytes) -> bool:
    position = 0
    # The number of parts still to come, for each open collection.
    open_parts: list[int] = []
    while True:
        order = "<" if wkb[position] else ">"
        (code,) = struct.unpack_from(order + "I", wkb, position + 1)
        position += 9 if code & _SRID else 5
        kind, point_bytes = _kind(code)
        if kind in COLLECTIONS:
            open_parts.append(struct.unpack_from(order + "I", wkb, position)[0])
            position += 4
            if len(open_parts) > MOST_LEVELS:
                return True
        elif kind in (POINT, LINE, POLYGON):
            position = _end(wkb, position, order, kind, point_bytes)
        else:
            return False  # an unknown kind: the reader reports it
        while open_parts and not open_parts[-1]:
            open_parts.pop()
        if not open_parts:
            return False
        open_parts[-1] -= 1


def _kind(code: int) -> tuple[int, int]:
    """Return the kind of a geometry and the size of one of its points in bytes."""
    iso, kind = divmod(code & 0x0FFFFFFF, 1_000)
    has_z = bool(code & _Z) or iso in (1, 3)
    has_m = bool(code & _M) or iso in (2, 3)
    return kind, 8 * (2 + has_z + has_m)


def _end(wkb: bytes, position: int, order: str, kind: int, point_bytes: int) -> int:
    """Return the end of a point, line or polygon whose content begins at the position."""
    if kind == POINT:
        return position + point_bytes
    rings = 1
    if kind == POLYGON:
        (rings,) = struct.unpack_from(order + "I", wkb, position)
        position += 4
    for _ in range(rings):
        (points,) = struct.unpack_from(order + "I", wkb, position)
        position += 4 + points * point_bytes
    return position


def parsed_geometries(texts: Sequence[Any]) -> tuple[Geometries, dict[int, ProblemKind]]:
    """Return the geometries of a column of WKT, as ``decoded_geometries`` does for WKB."""
    written = objects([_plain_wkt(text) for text in texts])
    try:
        with np.errstate(invalid="ignore"):
            geometries = shapely.from_wkt(written, on_invalid="ignore")
        curved: list[int] = []
    except NotImplementedError:
        geometries = objects([_parsed_alone(text) for text in written])
        curved = [n for n, geometry in enumerate(geometries) if geometry is CURVE]
        geometries[curved] = None
    missing = shapely.is_missing(geometries)
    faults = {
        position: ProblemKind.BROKEN_GEOMETRY
        for position in np.flatnonzero(missing).tolist()
        if texts[position] is not None
    }
    return geometries, faults | dict.fromkeys(curved, ProblemKind.UNKNOWN_GEOMETRY_TYPE)


def _plain_wkt(text: Any) -> str | None:
    """Return the text without the SRID that PostGIS puts before it; None if it cannot be read."""
    if not isinstance(text, str) or _is_nested_deep(text):
        return None
    return text.partition(";")[2] if text[:5].upper() == "SRID=" else text


def _is_nested_deep(text: str) -> bool:
    if text.count("(") <= MOST_LEVELS:
        return False
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth > MOST_LEVELS:
            return True
    return False


def _parsed_alone(wkt: str | None) -> Any:
    try:
        return shapely.from_wkt(wkt, on_invalid="ignore")
    except NotImplementedError:
        return CURVE
