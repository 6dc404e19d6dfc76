"""Converts Arrow columns: whole batches without a fault at once, other batches value by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas.language.limits import MAX_PEID
from spatial_udfs.entity_table import Geometries, Int64s
from world.long_work import in_threads
from world.sources.candidates import Candidates, Problem, objects
from world.sources.raw_rows import RawRows
from world.sources.raw_values import read_categories, tag_text, written_name
from world.sources.source_fields import ColumnLayout
from world.sources.wkb import decoded_geometries, parsed_geometries

# Separates categories that are compared as one text; no usable category contains it.
_BETWEEN: Final = "\x00"


def read_batches(
    batches: Iterable[pa.RecordBatch], layout: ColumnLayout
) -> Iterator[tuple[Candidates, list[Problem]]]:
    """Yield the usable rows of each batch and the problems of the others, numbered from 0."""

    def numbered() -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        first = 0
        for batch in batches:
            yield batch, np.arange(first, first + batch.num_rows)
            first += batch.num_rows

    return in_threads(lambda each: batch_candidates(each[0], layout, each[1]), numbered())


def batch_candidates(
    batch: pa.RecordBatch, layout: ColumnLayout, ordinals: Int64s
) -> tuple[Candidates, list[Problem]]:
    """Return the usable rows of one batch, and the problems of the others."""
    written = batch.column(layout.geometry.name)
    if layout.geometry.is_text:
        geometries, faults = parsed_geometries(values_of(written))
    else:
        geometries, faults = decoded_geometries(written.to_numpy(zero_copy_only=False))
    problems: list[Problem] = []
    try:
        rows = faultless_rows(batch, layout, ordinals, geometries)
    except UnicodeDecodeError:
        rows = None
    if rows is None:
        rows, problems = _raw_rows(batch, layout, ordinals, geometries).candidates()
    form = "WKT" if layout.geometry.is_text else "WKB"
    reason = f"geometry cannot be read as the {form} of a point, line or area"
    readable, unreadable = rows.without(
        {int(ordinals[position]): (kind, reason) for position, kind in faults.items()}
    )
    return readable, problems + unreadable


def _raw_rows(
    batch: pa.RecordBatch, layout: ColumnLayout, ordinals: Int64s, geometries: Geometries
) -> RawRows:
    def values(column: str | None) -> list[Any] | None:
        return None if column is None else values_of(batch.column(column))

    nothing = [None] * batch.num_rows
    columns = {tag: values_of(batch.column(name)) for tag, name in layout.attributes}
    tags = [
        {tag: text for tag, column in columns.items() if (text := tag_text(column[row]))}
        for row in range(batch.num_rows)
    ]
    return RawRows(
        source=layout.source,
        locator=row_locator,
        ordinals=ordinals,
        peids=values(layout.peid),
        keys=values(layout.key),
        categories=values(layout.categories) or nothing,
        names=values(layout.name) or nothing,
        geometries=geometries,
        tags=tags if layout.options.rules else None,
        options=layout.options,
    )


def row_locator(ordinal: int) -> str:
    """Return how problems name a row, counted from 1."""
    return f"row {ordinal + 1}"


def faultless_rows(
    batch: pa.RecordBatch, layout: ColumnLayout, ordinals: Int64s, geometries: Geometries
) -> Candidates | None:
    """Return the rows, column by column, if every peid and category is valid; else None.

    Raises UnicodeDecodeError if a text is not UTF-8, which Arrow does not check.
    """
    has_both = layout.peid is not None and layout.key is not None
    if layout.categories is None or has_both or layout.options.changes_values():
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
