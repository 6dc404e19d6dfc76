"""Lists the files with the memberships of one world version, and reads them in tasks.

Handing rows from Spark to Python takes longer than the rest of a push. So the tasks read the files
that Delta's log names. The log has the number of rows, or else the footers of the files have it. A
table with deletion vectors or renamed columns cannot be read in this way: Spark reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from schemas.errors import GenerationError, SourceError
from schemas.membership import PEID, SUB_ID, VERSION
from spatial_udfs.entity_table import Int64s
from world.lake.lake_tables import PLAIN_READER, LakeTable, TableFile, counted, files_of

# A file of more rows is shared by several tasks, as far as it has row groups.
ROWS_IN_PART: Final = 1_000_000
MOST_ROWS_AT_ONCE: Final = 5_000_000


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
    """One state of a table whose files are its rows: its place, and the files by world version."""

    table: LakeTable
    state: int
    columns: tuple[str, ...]
    files: dict[int, tuple[TableFile, ...]]

    def parts(self, version: int) -> list[FilePart]:
        """Return the files of a version in parts of about the same size."""
        parts: list[FilePart] = []
        for file in self._counted(version):
            rows = file.rows or 0
            count = max(1, -(-rows // ROWS_IN_PART))
            shares = [rows * at // count for at in range(count + 1)]
            parts += [
                FilePart(file.path, part, count, shares[part + 1] - shares[part])
                for part in range(count)
            ]
        return parts

    def _counted(self, version: int) -> list[TableFile]:
        try:
            return counted(self.table, self.files.get(version, ()))
        except (OSError, DeltaError, pa.ArrowException) as error:
            raise SourceError(f"a file of {self.table.uri} cannot be read: {error}") from error


def plain_state(table: LakeTable, commit: int | None = None) -> PlainState | None:
    """Return the state after a commit (None: the newest), or None when Spark has to read it."""
    try:
        opened = table.opened(commit)
        if opened is None or opened.protocol().min_reader_version != PLAIN_READER:
            return None
        if opened.metadata().partition_columns != [VERSION]:
            return None
        versions = {partition[VERSION] for partition in opened.partitions()}
        if None in versions:
            return None
        files = {number: tuple(files_of(opened, number)) for number in map(int, versions)}
    except (DeltaError, OSError):  # only Spark has the credentials of this store
        return None
    fields = tuple(field.name for field in opened.schema().fields)
    return PlainState(table, opened.version(), fields, files)


def read_parts(table: LakeTable, parts: list[FilePart]) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the peids and subIds of some parts, at most MOST_ROWS_AT_ONCE rows at a time."""
    store = table.store()
    for part in parts:
        try:
            with store.open_input_file(part.path) as opened:
                file = pq.ParquetFile(opened)
                for group in range(part.part, file.num_row_groups, part.of):
                    for batch in _batches(file, group):
                        yield usable_pairs(batch.column(PEID), batch.column(SUB_ID))
        except (OSError, DeltaError, pa.ArrowException, KeyError) as error:
            raise SourceError(f"{part.path} of {table.uri} cannot be read: {error}") from error


def _batches(file: pq.ParquetFile, group: int) -> Iterator[pa.RecordBatch]:
    """Yield a row group whole, which is three times as fast, or in batches if it is very large."""
    wanted: Any = {"columns": [PEID, SUB_ID], "use_threads": False}
    if file.metadata.row_group(group).num_rows <= MOST_ROWS_AT_ONCE:
        yield from file.read_row_group(group, **wanted).to_batches()
    else:
        yield from file.iter_batches(ROWS_IN_PART, row_groups=[group], **wanted)


def usable_pairs(peids: pa.Array, sub_ids: pa.Array) -> tuple[Int64s, Int64s]:
    """Return both columns as 64-bit numbers; raise an error if a row is no pair."""
    arrays = [column.cast(pa.int64()) for column in (peids, sub_ids)]
    numbers: list[Int64s] = [column.fill_null(-1).to_numpy() for column in arrays]
    if any(int(each.min(initial=0)) < 0 for each in numbers):
        bad = int(((numbers[0] < 0) | (numbers[1] < 0)).sum())
        raise GenerationError(
            f"{bad:,} rows of memberships lack a peid or a subId, or have one below 0"
        )
    return numbers[0], numbers[1]
