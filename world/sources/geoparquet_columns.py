"""Columns of GeoParquet as rows at once, where nothing is wrong with any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyproj import CRS

from schemas.language.limits import MAX_PEID
from spatial_udfs.entity_table import Geometries, Int64s
from world.sources.candidates import Candidates, objects
from world.sources.raw_rows import read_categories, written_name

# Between categories where they are compared as one text; none that can be used holds it.
_BETWEEN: Final = "\x00"


@dataclass(frozen=True, slots=True)
class GeoParquetLayout:
    """Which columns of a source hold what. ``categories`` is None when one is given instead."""

    source: str
    crs: CRS
    geometry: str
    peid: str
    categories: str | None
    name: str | None
    category: str | None

    def columns(self) -> list[str]:
        """Return the columns to read."""
        optional = (self.categories, self.name)
        return [self.peid, self.geometry, *(column for column in optional if column is not None)]


def row_locator(ordinal: int) -> str:
    """Return how problems name a row: people count from 1."""
    return f"row {ordinal + 1}"


def faultless_rows(
    batch: pa.RecordBatch, layout: GeoParquetLayout, ordinals: Int64s, geometries: Geometries
) -> Candidates | None:
    """Return the rows, column by column, if nothing is wrong with any peid or category; else None.

    UnicodeDecodeError where bytes of a text are not UTF-8: Arrow does not look at them.
    """
    peids = batch.column(layout.peid)
    if layout.categories is None or not pa.types.is_integer(peids.type) or peids.null_count:
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
    )


def _categories(column: pa.Array) -> NDArray[Any] | None:
    """Return the categories of each row, or None where any is missing or cannot be one.

    A world has few different lists of them: each is read once.
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
    """Return the values of a column; bytes that are no UTF-8 become lone surrogates."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return [_text(value) for value in column.cast(_with_bytes(column.type)).to_pylist()]


def _with_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type of texts, or of lists of texts, with bytes in their place."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.large_list(_with_bytes(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _with_bytes(kind.value_type)
    return pa.large_binary()


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return [_text(item) for item in value] if isinstance(value, list) else value
