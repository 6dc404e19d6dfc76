"""Delta tables of subscriptions (subId, descriptor), read by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from schemas.errors import SourceError
from schemas.membership import DESCRIPTOR, SUB_ID
from spatial_udfs.batch.subscription_parts import BadRow, SubscriptionPart, part_of_texts
from world.lake.lake_tables import PLAIN_READER, LakeTable

_ROWS_AT_ONCE: Final = 100_000
_COLUMNS: Final = (SUB_ID, DESCRIPTOR)
_INTEGERS: Final = ("byte", "short", "integer", "long")
_UNUSABLE: Final = "the row has no subId of 0 .. 2^63-1, or no descriptor"


@dataclass(frozen=True, slots=True)
class SubscriptionTable:
    """The table; ``paths`` is None where its rows are not simply the rows of its files."""

    at: LakeTable
    path: str
    paths: tuple[str, ...] | None


def open_table(at: LakeTable, path: str) -> SubscriptionTable:
    """Return the table of subscriptions, with the files that tasks can read themselves."""
    try:
        opened = at.opened()
    except DeltaError:
        opened = None
    if opened is None:
        return SubscriptionTable(at, path, None)
    fields = {each.name: getattr(each.type, "type", "") for each in opened.schema().fields}
    check_columns(list(fields), path)
    is_plain = (
        opened.protocol().min_reader_version == PLAIN_READER
        and fields[SUB_ID] in _INTEGERS
        and fields[DESCRIPTOR] == "string"
        and not set(_COLUMNS) & set(opened.metadata().partition_columns)
    )
    actions = pa.table(opened.get_add_actions())
    paths: list[str] = actions.column("path").to_pylist()
    # Files elsewhere, or in folders whose names are written in signs of their own.
    is_plain &= not any("%" in each or ":/" in each for each in paths)
    return SubscriptionTable(at, path, tuple(sorted(paths)) if is_plain else None)


def check_columns(names: list[str], path: str) -> None:
    """Raise an error if a table lacks a column of subscriptions."""
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        raise SourceError(f"{path} is no table of subscriptions: it lacks {', '.join(missing)}")


def parts_of_files(table: LakeTable, paths: Iterable[str]) -> Iterator[SubscriptionPart]:
    """Read the rows of some files of the table; for tasks."""
    store = table.store()
    for path in paths:
        with store.open_input_file(path) as stored:
            file = pq.ParquetFile(stored)
            there = [name for name in _COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=there):
                yield part_of_rows(batch)


def part_of_rows(batch: pa.RecordBatch) -> SubscriptionPart:
    """Return the part of rows of a file, which may be older than a column and lack its values."""
    numbers, texts = (
        batch.column(name) if name in batch.schema.names else pa.nulls(len(batch), kind)
        for name, kind in ((SUB_ID, pa.int64()), (DESCRIPTOR, pa.string()))
    )
    numbers = numbers.cast(pa.int64())
    is_number = pc.fill_null(pc.greater_equal(numbers, 0), fill_value=False)
    is_usable = pc.and_(is_number, texts.is_valid())
    unusable = numbers.filter(pc.invert(is_usable)).to_pylist()
    bad = [BadRow(0, number, _UNUSABLE) for number in unusable]
    return part_of_texts(numbers.filter(is_usable).to_numpy(), texts.filter(is_usable), bad=bad)


@contextmanager
def read_errors(source: str) -> Iterator[None]:
    """Turn what a file or its store says into one line about the source."""
    try:
        yield
    except (OSError, DeltaError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise SourceError(f"{source} cannot be read: {reason}") from error
