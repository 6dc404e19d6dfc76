"""Opens Delta tables without Spark, reads their rows, and explains errors; nothing else opens them.

By default deltalake gives Arrow's dataset reader a file system that is a Python object. The last
of Arrow's threads releases it some time after the rows are read. If the interpreter ends at that
moment, the process is aborted after its work was done (docs/decisions/0113). So rows are read
without giving Arrow's threads a Python object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from schemas.entity import VERSION
from schemas.errors import SpapsError, WorldError

if TYPE_CHECKING:
    import pyarrow.dataset as ds


LOG_FOLDER: Final = "_delta_log"
# All errors that reading or writing a Delta table can raise.
TABLE_ERRORS: Final = (DeltaError, OSError, pa.ArrowException)

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
# The native libraries append a numbered backtrace to an error, mostly without names.
_BACKTRACE: Final = re.compile(r"\s+(?:stack backtrace:\s+)?0: .*", re.DOTALL)
_PREFIX: Final = re.compile(r"^(?:(?:Generic delta kernel|Kernel|Arrow|Generic \w+) error: )+")
_MISSING: Final = re.compile(
    r"Object at location (\S+) not found|Failed to open local file '([^']+)'.*\[errno 2\]"
)
_NOT_PARQUET: Final = re.compile(r"Could not open Parquet input source '([^']+)'")
# Messages of the operating system, which the libraries wrap in their own.
_OF_THE_SYSTEM: Final = re.compile(
    r"No space left on device|Disk quota exceeded|File too large|[Pp]ermission denied"
)
_OF_THE_LOG: Final = re.compile(
    r"Json error|No table metadata|No files in log segment|Corrupt footer|Invalid Parquet file|"
    r"[Cc]heckpoint|Invalid JSON in log"
)
RESTORE: Final = "restore the folder from a copy, or import into another one"


def open_table(
    uri: str, commit: int | None = None, keys: dict[str, str] | None = None
) -> DeltaTable:
    """Return a table at a commit (None: the newest); ``keys`` are the credentials of its store."""
    return DeltaTable(uri, version=commit, storage_options=keys)


def find_table(
    uri: str, commit: int | None = None, keys: dict[str, str] | None = None
) -> DeltaTable | None:
    """Return a table like ``open_table``, or None if there is none."""
    try:
        return open_table(uri, commit, keys)
    except TableNotFoundError:
        return None


def arrow_schema(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table as Arrow types."""
    return pa.schema(table.schema().to_arrow())


def table_files(table: DeltaTable) -> list[str]:
    """Return the paths of a table's files, relative to its folder, in a fixed order."""
    actions = pa.table(table.get_add_actions(flatten=True))
    # The log writes characters of a URI with %, also the % that stands in the name of a file.
    return sorted(unquote(path) for path in actions.column("path").to_pylist())


def versions_in(table: DeltaTable) -> set[int]:
    """Return the world versions of a table's rows."""
    if table.metadata().partition_columns:
        return {int(partition[VERSION]) for partition in table.partitions()}
    return {*delta_rows(table, [VERSION]).column(VERSION).to_pylist()}


def remove_versions_from(table: DeltaTable, versions: Collection[int]) -> None:
    """Remove the rows of these world versions, in one commit."""
    if versions:
        table.delete(f"{VERSION} in ({', '.join(map(str, sorted(versions)))})")


def delta_rows(
    table: DeltaTable,
    columns: list[str] | None = None,
    where: ds.Expression | None = None,
    most: int | None = None,
) -> pa.Table:
    """Return the rows of a table for which ``where`` holds; all columns if none are named.

    ``most`` limits the number of rows.
    """
    location = urlsplit(table.table_uri)
    if location.scheme in ("", "file"):
        # Arrow's own file system: its threads hold no Python object.
        disk = pa_fs.SubTreeFileSystem(unquote(location.path), pa_fs.LocalFileSystem())
        dataset = table.to_pyarrow_dataset(filesystem=disk)
        if most is not None:
            return dataset.head(most, columns=columns, filter=where)
        return dataset.to_table(columns=columns, filter=where)
    return rows_file_by_file(table, columns, where, most)


def rows_file_by_file(
    table: DeltaTable,
    columns: list[str] | None = None,
    where: ds.Expression | None = None,
    most: int | None = None,
) -> pa.Table:
    """Return the rows like ``delta_rows``, through deltalake's file system, for object stores.

    All files are read in this thread (``use_threads=False``), so no other thread holds the file
    system.
    """
    # This import looks for pandas, which some processes avoid (world/arrow_without_pandas.py).
    from pyarrow.dataset import get_partition_keys  # noqa: PLC0415

    dataset = table.to_pyarrow_dataset()
    partitioned_by = table.metadata().partition_columns
    parts, found = [dataset.schema.empty_table()], 0
    for fragment in dataset.get_fragments(filter=where):
        keys = get_partition_keys(fragment.partition_expression)
        with dataset.filesystem.open_input_file(fragment.path) as opened:
            file = pq.ParquetFile(opened, pre_buffer=False)
            there = [name for name in dataset.schema.names if name in file.schema_arrow.names]
            rows = file.read(columns=there, use_threads=False)
        values = {name: keys.get(name) for name in partitioned_by}
        rows = _as_in_table(rows, values, dataset.schema)
        parts.append(rows if where is None else rows.filter(where))
        found += parts[-1].num_rows
        if most is not None and found >= most:
            break
    rows = pa.concat_tables(parts).slice(0, most)
    return rows if columns is None else rows.select(columns)


def _as_in_table(rows: pa.Table, keys: dict[str, object], schema: pa.Schema) -> pa.Table:
    """Return the rows of a file with all columns of the table.

    Partition columns get their value, and columns that are newer than the file are null.
    """
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.repeat(pa.scalar(keys.get(field.name), field.type), rows.num_rows)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def table_reason(error: BaseException) -> str:
    """Return in one line why a table cannot be read or written."""
    text = _COLOURS.sub("", str(error)).replace("\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}", ":")
    if found := _MISSING.search(text):
        return f"the file {found[1] or found[2]} is missing: {RESTORE}"
    if found := _NOT_PARQUET.search(text):
        return f"the file {found[1]} is damaged, it is no whole Parquet file: {RESTORE}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if found := _OF_THE_SYSTEM.search(text):
        return found[0]
    reason = _PREFIX.sub("", " ".join(_BACKTRACE.sub("", text).split()))
    if _OF_THE_LOG.search(text):
        return f"its log ({LOG_FOLDER}) is damaged: {reason.rstrip('.')}: {RESTORE}"
    return reason or type(error).__name__


@contextmanager
def table_errors(what: str) -> Iterator[None]:
    """Turn errors of Delta, Arrow and files into a WorldError about ``what``."""
    try:
        yield
    except SpapsError:
        raise
    except TABLE_ERRORS as error:
        raise WorldError(f"{what}: {table_reason(error)}") from error


def check_table_folder(folder: Path) -> None:
    """Raise WorldError for a damaged local table that Delta would take for a missing one.

    Delta treats a folder without permission, and an empty entry of the log, as no table. An import
    would then begin again at version 1.
    """
    if not _is_there(folder):
        return
    log = folder / LOG_FOLDER
    try:
        entries = [entry for entry in os.scandir(log) if entry.name.endswith(".json")]
        empty = sorted(entry.name for entry in entries if not entry.stat().st_size)
    except FileNotFoundError:
        if any(folder.rglob("*.parquet")):
            raise WorldError(f"{folder}: its log ({LOG_FOLDER}) is gone: {RESTORE}") from None
        return
    except NotADirectoryError:
        raise WorldError(f"{folder}: is a file, not the folder of a table") from None
    except OSError as error:
        raise WorldError(f"{error.filename or log}: {(error.strerror or str(error))}") from error
    if empty:
        raise WorldError(f"{log / empty[0]}: an empty entry of a table's log: {RESTORE}")


def _is_there(folder: Path) -> bool:
    try:
        folder.lstat()
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise WorldError(f"{folder.parent}: is a file, not a folder") from None
    except OSError as error:
        raise WorldError(f"{error.filename or folder}: {error.strerror or error}") from error
    return True
