"""How deep the collections of a WKB are nested, found without reading its coordinates.

GEOS reads a collection inside a collection by calling itself. Tens of thousands of them use up
the stack, and the process ends.
"""

from __future__ import annotations

import struct
from typing import Final

# Far more than any geometry has that can be used: those are nested once.
MOST_LEVELS: Final = 1_000
# The shortest beginning of a collection: byte order, type, number of parts.
HEADER_BYTES: Final = 9
POINT, LINE, POLYGON = 1, 2, 3
COLLECTIONS: Final = (4, 5, 6, 7)
# Marks of PostGIS in the type: Z, M, and an SRID that follows. ISO adds 1000, 2000 or 3000.
_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000


def is_too_deep(wkb: bytes | None) -> bool:
    """Return whether the collections of a WKB are nested deeper than a reader should follow."""
    if wkb is None or len(wkb) <= MOST_LEVELS * HEADER_BYTES:
        return False
    try:
        return _is_deeper(wkb)
    except (struct.error, IndexError):
        return False  # cut off before it is that deep: the reader will say so


def _is_deeper(wkb: bytes) -> bool:
    position = 0
    # How many parts of each open collection are still to come.
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
            return False  # of no kind that a reader follows
        while open_parts and not open_parts[-1]:
            open_parts.pop()
        if not open_parts:
            return False
        open_parts[-1] -= 1


def _kind(code: int) -> tuple[int, int]:
    """Return the kind of a geometry and the bytes of one of its points."""
    iso, kind = divmod(code & 0x0FFFFFFF, 1_000)
    has_z = bool(code & _Z) or iso in (1, 3)
    has_m = bool(code & _M) or iso in (2, 3)
    return kind, 8 * (2 + has_z + has_m)


def _end(wkb: bytes, position: int, order: str, kind: int, point_bytes: int) -> int:
    """Return where a point, line or polygon ends whose content begins at the position."""
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
