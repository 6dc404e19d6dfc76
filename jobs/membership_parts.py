"""The files that hold the memberships of one world version, for tasks that read them themselves.

Handing rows from Spark to Python costs more than all the rest of a push. So Delta's log says
which files they are, the tasks open these, and only the log's count of rows is believed. Not
every table allows it: one with deletion vectors or renamed columns is read by Spark alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyspark.sql import SparkSession

from redis_link.tally import Int64s
from schemas.errors import GenerationError, SourceError
from schemas.membership import PEID, SUB_ID, VERSION

# A file of more rows is shared by several tasks, as far as it has row groups.
ROWS_IN_PART: Final = 1_000_000
# In tables of this level a file's rows are the table's rows, under their own names.
PLAIN_READER: Final = 1


@dataclass(frozen=True, slots=True)
class FilePart:
    """Every ``of``-th row group of a file, beginning with number ``part``; ``rows`` about."""

    path: str
    part: int
    of: int
    rows: int


@dataclass(frozen=True, slots=True)
class PlainState:
    """One state of a plain table: where it lies and what its log says about each world version."""

    uri: str
    state: int
    columns: tuple[str, ...]
    files: dict[int, tuple[tuple[str, int], ...]]

    def rows(self, version: int) -> int:
        """How many rows the log counts."""
        return sum(rows for _, rows in self.files.get(version, ()))

    def parts(self, version: int) -> list[FilePart]:
        """The files of a version in parts of about one size."""
        return [
            FilePart(path, part, count, rows // count)
            for path, rows in self.files.get(version, ())
            for count in [max(1, -(-rows // ROWS_IN_PART))]
            for part in range(count)
        ]


def plain_state(spark: SparkSession, table: str) -> PlainState | None:
    """The newest state of a table, or None when Spark has to read it."""
    uri = _qualified(spark, table)
    try:
        opened = DeltaTable(uri)
        plain = opened.protocol().min_reader_version == PLAIN_READER
        if not plain or opened.metadata().partition_columns != [VERSION]:
            return None
        actions = pa.table(opened.get_add_actions(flatten=True))
    except (DeltaError, OSError):  # a store that only Spark has the keys of
        return None
    columns = tuple(field.name for field in opened.schema().fields)
    files: dict[int, list[tuple[str, int]]] = {}
    names = ("path", "num_records", f"partition.{VERSION}")
    for path, rows, version in zip(*(actions.column(name).to_pylist() for name in names),
                                   strict=True):  # fmt: skip
        if rows is None or version is None:
            return None
        files.setdefault(int(version), []).append((path, rows))
    found = {version: tuple(paths) for version, paths in files.items()}
    return PlainState(uri, opened.version(), columns, found)


def read_parts(uri: str, parts: list[FilePart]) -> Iterator[tuple[Int64s, Int64s]]:
    """Peids and subIds of some parts, no more than ROWS_IN_PART rows at a time."""
    store = pa_fs.PyFileSystem(DeltaStorageHandler(uri))
    for part in parts:
        try:
            with store.open_input_file(part.path) as opened:
                file = pq.ParquetFile(opened)
                groups = list(range(part.part, file.num_row_groups, part.of))
                batches = file.iter_batches(
                    ROWS_IN_PART, row_groups=groups, columns=[PEID, SUB_ID], use_threads=False
                )
                for batch in batches:
                    yield usable_pairs(batch.column(PEID), batch.column(SUB_ID))
        except (OSError, DeltaError, pa.ArrowException, KeyError) as error:
            raise SourceError(f"{part.path} of {uri} cannot be read: {error}") from error


def usable_pairs(peids: pa.Array, sub_ids: pa.Array) -> tuple[Int64s, Int64s]:
    """Both columns as numbers of 64 bits; an error when a row is no pair."""
    arrays = [column.cast(pa.int64()) for column in (peids, sub_ids)]
    numbers: list[Int64s] = [column.fill_null(-1).to_numpy() for column in arrays]
    if any(int(each.min(initial=0)) < 0 for each in numbers):
        bad = int(((numbers[0] < 0) | (numbers[1] < 0)).sum())
        raise GenerationError(
            f"{bad:,} rows of memberships lack a peid or a subId, or have one below 0"
        )
    return numbers[0], numbers[1]


def _qualified(spark: SparkSession, path: str) -> str:
    """The path as Spark understands it: without a scheme it belongs to the default file system."""
    context = spark.sparkContext
    java_path = context._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]  # noqa: SLF001
    files = java_path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
    uri = str(files.makeQualified(java_path).toString())
    return f"file://{uri.removeprefix('file:')}" if uri.startswith("file:/") else uri
