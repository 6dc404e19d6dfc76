"""The files that hold the memberships of one world version, for tasks that read them themselves.

Handing rows from Spark to Python costs more than all the rest of a push. So Delta's log says
which files they are, and the tasks open these. How many rows must come is said by the log, or by
the files' own footers where it is silent. Not every table allows it: one with deletion vectors
or renamed columns is read by Spark alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

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
MOST_ROWS_AT_ONCE: Final = 5_000_000
# In tables of this level a file's rows are the table's rows, under their own names.
PLAIN_READER: Final = 1
FOOTERS_AT_ONCE: Final = 16
LOCAL: Final = "file://"


@dataclass(frozen=True, slots=True)
class FilePart:
    """Every ``of``-th row group of a file, beginning with number ``part``.

    ``rows`` is its share of the file's rows, by which work is spread.
    """

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
    # The path of each file and its rows, if the log says how many.
    files: dict[int, tuple[tuple[str, int | None], ...]]

    def parts(self, version: int) -> list[FilePart]:
        """The files of a version in parts of about one size; together they have all its rows."""
        files = self.files.get(version, ())
        counted = dict(_counted(self.uri, [path for path, rows in files if rows is None]))
        parts: list[FilePart] = []
        for path, said in files:
            rows = counted[path] if said is None else said
            count = max(1, -(-rows // ROWS_IN_PART))
            shares = [rows * at // count for at in range(count + 1)]
            parts += [
                FilePart(path, part, count, shares[part + 1] - shares[part])
                for part in range(count)
            ]
        return parts


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
    files: dict[int, list[tuple[str, int | None]]] = {}
    names = ("path", f"partition.{VERSION}", "num_records")
    columns = [_listed(actions, name) for name in names]
    for path, version, rows in zip(*columns, strict=True):
        if version is None:
            return None
        files.setdefault(int(version), []).append((path, rows))
    found = {version: tuple(paths) for version, paths in files.items()}
    fields = tuple(field.name for field in opened.schema().fields)
    return PlainState(uri, opened.version(), fields, found)


def read_parts(uri: str, parts: list[FilePart]) -> Iterator[tuple[Int64s, Int64s]]:
    """Peids and subIds of some parts, no more than MOST_ROWS_AT_ONCE rows at a time."""
    store = _store(uri)
    for part in parts:
        try:
            with store.open_input_file(part.path) as opened:
                file = pq.ParquetFile(opened)
                for group in range(part.part, file.num_row_groups, part.of):
                    for batch in _batches(file, group):
                        yield usable_pairs(batch.column(PEID), batch.column(SUB_ID))
        except (OSError, DeltaError, pa.ArrowException, KeyError) as error:
            raise SourceError(f"{part.path} of {uri} cannot be read: {error}") from error


def _store(uri: str) -> pa_fs.FileSystem:
    """Paths of the table as files: what works for every store takes thrice as long on a disk."""
    if uri.startswith(LOCAL):
        return pa_fs.SubTreeFileSystem(uri.removeprefix(LOCAL), pa_fs.LocalFileSystem())
    return pa_fs.PyFileSystem(DeltaStorageHandler(uri))


def _batches(file: pq.ParquetFile, group: int) -> Iterator[pa.RecordBatch]:
    """A row group at once, three times as fast; or bit by bit when it is very large."""
    wanted: Any = {"columns": [PEID, SUB_ID], "use_threads": False}
    if file.metadata.row_group(group).num_rows <= MOST_ROWS_AT_ONCE:
        yield from file.read_row_group(group, **wanted).to_batches()
    else:
        yield from file.iter_batches(ROWS_IN_PART, row_groups=[group], **wanted)


def _listed(actions: pa.Table, name: str) -> list[Any]:
    """A column of the log; a log without statistics has no column for them."""
    if name not in actions.column_names:
        return [None] * actions.num_rows
    values: list[Any] = actions.column(name).to_pylist()
    return values


def _counted(uri: str, paths: list[str]) -> Iterator[tuple[str, int]]:
    """The rows of files by their footers; many at a time, since a store takes its time."""
    if not paths:
        return
    store = _store(uri)

    def count(path: str) -> int:
        with store.open_input_file(path) as opened:
            return int(pq.read_metadata(opened).num_rows)

    with ThreadPoolExecutor(min(len(paths), FOOTERS_AT_ONCE)) as threads:
        try:
            yield from zip(paths, threads.map(count, paths), strict=True)
        except (OSError, DeltaError, pa.ArrowException) as error:
            raise SourceError(f"a file of {uri} cannot be read: {error}") from error


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
    return f"{LOCAL}{uri.removeprefix('file:')}" if uri.startswith("file:/") else uri
