"""Delta tables as a run uses them: tasks open and write files, and the driver commits them.

Spark's own way to a Delta table goes through its planner and several jobs, for a log of some
lines. Here the log is read and written by the deltalake package in milliseconds, and what grows
with the world is touched by tasks alone. Tables are partitioned by world version, those of the
bulk job by bucket too (``spatial_udfs/bulk/buckets.py``), so a task knows its files from the log.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from schemas.entity import BUCKET, VERSION
from schemas.errors import WorldError
from schemas.storage_credentials import LOCAL
from world.memberships.run_commits import (
    commit_version,
    replacement,
    statistics_of,
    version_files,
)
from world.versions.delta_tables import delta_rows, find_table, table_errors

# In tables of this level a file's rows are the table's rows, under their own names.
PLAIN_READER: Final = 1
ROWS_PER_FILE: Final = 5_000_000
FOOTERS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that the log names; ``bucket`` and ``rows`` where the log says them."""

    path: str
    bucket: int | None
    rows: int | None


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that a task has written; it counts when it is committed."""

    path: str
    partition: tuple[tuple[str, str], ...]
    size: int
    rows: int
    statistics: str


@dataclass(frozen=True, slots=True)
class LakeTable:
    """Where a table lies, and the keys to get there: tasks get it with their code."""

    uri: str
    keys: tuple[tuple[str, str], ...] = ()
    on_disk: bool = False

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The keys as the deltalake package wants them."""
        return dict(self.keys) or None

    def store(self) -> pa_fs.FileSystem:
        """Paths of the table as files; what works for every store is slow on a disk."""
        if self.on_disk:
            return pa_fs.SubTreeFileSystem(self.uri.removeprefix(LOCAL), pa_fs.LocalFileSystem())
        return pa_fs.PyFileSystem(DeltaStorageHandler(self.uri, self.storage_options))

    def opened(self, commit: int | None = None) -> DeltaTable | None:
        """Return the table as a commit left it (None: the newest), or None where there is none."""
        return find_table(self.uri, commit, self.storage_options)

    def files(self, version: int) -> list[TableFile]:
        """Return the files of a world version; none if there is no table."""
        opened = self.opened()
        return [] if opened is None else files_of(opened, version)

    def write(
        self, version: int, bucket: int | None, batches: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> list[NewFile]:
        """Write rows as new files of a partition, none if there are no rows; for tasks."""
        partition = ((VERSION, str(version)), *(() if bucket is None else ((BUCKET, str(bucket)),)))
        folder = "/".join(f"{name}={value}" for name, value in partition)
        store = self.store()
        if self.on_disk:
            store.create_dir(folder, recursive=True)
        written = []
        waiting = next(batches, None)
        while waiting is not None:
            name = f"{folder}/part-{uuid.uuid4()}.parquet"
            rows = 0
            with store.open_output_stream(name) as stream:
                # Plain numbers: rows of a set come again and again, which LZ4 finds by itself.
                writer = pq.ParquetWriter(stream, schema, compression="lz4", use_dictionary=False)
                while waiting is not None and rows < ROWS_PER_FILE:
                    writer.write_batch(waiting)
                    rows += waiting.num_rows
                    waiting = next(batches, None)
                writer.close()
            with store.open_input_file(name) as stored:
                told = statistics_of(pq.read_metadata(stored))
                written.append(NewFile(name, partition, stored.size(), rows, told))
        return written

    def paths(self, version: int) -> frozenset[str]:
        """Return the paths of the files of a world version; none where there is no table."""
        with lake_errors(self.uri):
            opened = self.opened()
            return frozenset() if opened is None else version_files(opened, version)

    def replace_version(
        self,
        version: int,
        files: Sequence[NewFile],
        schema: pa.Schema,
        partition_by: list[str],
        *,
        run: str = "",
        before: frozenset[str] | None = None,
    ) -> int:
        """Make the files all that the table has of a version, and return the commit's number."""
        commit = replacement(version, [_added(file) for file in files], schema, partition_by)
        with lake_errors(self.uri):
            return commit_version(
                lambda: self._made(schema, partition_by), version, commit, run=run, before=before
            )

    def append(self, files: Sequence[NewFile], schema: pa.Schema, partition_by: list[str]) -> None:
        """Add the files in one commit."""
        table = self._made(schema, partition_by)
        with lake_errors(self.uri):
            actions: list[AddAction | RemoveAction] = [_added(file) for file in files]
            table.create_write_transaction(actions, "append", schema, partition_by)

    def append_rows(self, rows: pa.Table) -> None:
        """Add a few rows that the driver holds."""
        with lake_errors(self.uri):
            write_deltalake(
                self.uri, rows, mode="append", schema_mode="merge",
                storage_options=self.storage_options,
                commit_properties=CommitProperties(max_commit_retries=15),
            )  # fmt: skip

    def rows(self, columns: list[str] | None = None) -> pa.Table | None:
        """Return a small table on the driver; None if there is none."""
        opened = self.opened()
        return None if opened is None else delta_rows(opened, columns)

    def _made(self, schema: pa.Schema, partition_by: list[str]) -> DeltaTable:
        with lake_errors(self.uri):
            opened = self.opened()
            if opened is not None:
                return opened
            try:
                return DeltaTable.create(
                    self.uri, schema, mode="ignore", partition_by=partition_by,
                    storage_options=self.storage_options,
                )  # fmt: skip
            except DeltaError:
                # Another run may have made it at the same moment.
                opened = self.opened()
                if opened is None:
                    raise
                return opened


def files_of(opened: DeltaTable, version: int) -> list[TableFile]:
    """Return the files that a state of a table has of a world version."""
    if opened.protocol().min_reader_version != PLAIN_READER:
        raise WorldError(f"{opened.table_uri}: a table with features that only Spark reads")
    actions = pa.table(opened.get_add_actions(flatten=True))
    columns = [
        _listed(actions, name)
        for name in ("path", f"partition.{VERSION}", f"partition.{BUCKET}", "num_records")
    ]
    return [
        TableFile(path, None if bucket is None else int(bucket), rows)
        for path, of, bucket, rows in zip(*columns, strict=True)
        if of is not None and int(of) == version
    ]


def counted(table: LakeTable, files: Sequence[TableFile]) -> list[TableFile]:
    """Return the files with their numbers of rows, from their footers where the log lacks them."""
    store = table.store()

    def count(file: TableFile) -> TableFile:
        if file.rows is not None:
            return file
        with store.open_input_file(file.path) as opened:
            return replace(file, rows=int(pq.read_metadata(opened).num_rows))

    if all(file.rows is not None for file in files):
        return list(files)
    # Many at a time, since a store takes its time.
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as threads:
        return list(threads.map(count, files))


def lake_errors(uri: str) -> AbstractContextManager[None]:
    """Turn what Delta, Arrow or the store say into one line about this table."""
    return table_errors(uri.removeprefix(LOCAL))


def _added(file: NewFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=dict(file.partition),
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=file.statistics,
    )


def _listed(actions: pa.Table, name: str) -> list[Any]:
    """Return a column of the log as a list; not every log has all columns."""
    if name not in actions.column_names:
        return [None] * actions.num_rows
    values: list[Any] = actions.column(name).to_pylist()
    return values
