"""Converts columns of GeoParquet: whole batches without a fault at once, single values, geometries.

GEOS reads nested collections by recursion. Tens of thousands of levels exhaust the stack and end
the process, so the depth of a WKB is checked first, without reading its coordinates.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from schemas.language.limits import MAX_PEID
from spatial_udfs.entity_table import Geometries, Int64s
from world.sources.candidates import Candidates, ProblemKind, objects
from world.sources.raw_values import read_categories, written_name

# Separates categories that are compared as one text; no usable category contains it.
_BETWEEN: Final = "\x00"
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


@dataclass(frozen=True, slots=True)
class GeoParquetLayout:
    """The columns of a source.

    At least one of ``peid`` and ``key`` is there. ``categories`` is None if ``category`` is given
    for all rows.
    """

    source: str
    crs: CRS
    geometry: str
    peid: str | None
    key: str | None
    categories: str | None
    name: str | None
    category: str | None

    def columns(self) -> list[str]:
        """Return the columns to read."""
        every = (self.geometry, self.peid, self.key, self.categories, self.name)
        return list(dict.fromkeys(column for column in every if column is not None))


def row_locator(ordinal: int) -> str:
    """Return how problems name a row, counted from 1."""
    return f"row {ordinal + 1}"


def faultless_rows(
    batch: pa.RecordBatch, layout: GeoParquetLayout, ordinals: Int64s, geometries: Geometries
) -> Candidates | None:
    """Return the rows, column by column, if every peid and category is valid; else None.

    Raises UnicodeDecodeError if a text is not UTF-8, which Arrow does not check.
    """
    if layout.categories is None or (layout.peid is not None and layout.key is not None):
        return None
    # A key that is a whole number is its peid.
    peids = batch.column(layout.peid or layout.key)
    if not pa.types.is_integer(peids.type) or peids.null_count:
        return None
    numbers = peids.to_numpy()
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) <= MAX_PEID:
        return None
    categories = _categories(batch.column(layout.categories))
    if categories is None:
        return None
    names = batch.column(layout.name).to_pylist() if layout.name else [None] * len(numbers)
    return Candidates(
        source=layout.source,
        locator=row_locator,
        ordinals=ordinals,
        peids=numbers.astype(np.int64),
        categories=categories,
        names=objects([written_name(value) for value in names]),
        geometries=geometries,
        keys=np.full(len(numbers), None, object),
    )


def _categories(column: pa.Array) -> NDArray[Any] | None:
    """Return the categories of each row; None if any is missing or invalid.

    A world has few distinct lists of categories, so each is read once.
    """
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return None
    flat = column.flatten()
    strings = flat.cast(pa.string())
    unclear = pc.or_(pc.match_substring(strings, _BETWEEN), pc.equal(strings, ""))
    if column.null_count or flat.null_count or pc.any(unclear).as_py():
        return None
    offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(column))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), strings)
    coded = pc.dictionary_encode(pc.binary_join(lists, _BETWEEN))
    read = [read_categories(text.split(_BETWEEN)) for text in coded.dictionary.to_pylist() if text]
    if len(read) < len(coded.dictionary) or any(faults for _, faults in read):
        return None
    every: NDArray[Any] = objects([usable for usable, _ in read])[coded.indices.to_numpy()]
    return every


def values_of(column: pa.Array) -> list[Any]:
    """Return the values of a column; bytes that are not UTF-8 become lone surrogates."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return [_text(value) for value in column.cast(_with_bytes(column.type)).to_pylist()]


def _with_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type of strings, or of lists of strings, with binary in place of strings."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.large_list(_with_bytes(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _with_bytes(kind.value_type)
    return pa.large_binary()


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return [_text(item) for item in value] if isinstance(value, list) else value


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
