"""Delta tables of subscriptions (subId, descriptor), read by tasks."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.lake_tables import PLAIN_READER, LakeTable
from jobs.pipeline.subscriptions.subscription_parts import BadRow, SubscriptionPart, part_of_texts
from schemas.errors import SourceError
from schemas.membership import DESCRIPTOR, SUB_ID

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
    _check_columns(list(fields), path)
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


def _check_columns(names: list[str], path: str) -> None:
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
                yield _part_of(batch)


def rows_by_spark(spark: SparkSession, path: str) -> DataFrame:
    """Read a table whose rows are not simply those of its files; one column of pickled parts."""
    rows = spark.read.format("delta").load(path)
    _check_columns(rows.columns, path)
    columns = rows.select(F.col(SUB_ID).cast("bigint"), F.col(DESCRIPTOR).cast("string"))
    return columns.mapInArrow(_pack, "part binary")


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch([pa.array([pickle.dumps(_part_of(batch))], pa.binary())], ["part"])


def _part_of(batch: pa.RecordBatch) -> SubscriptionPart:
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
