"""Rows of a Delta table, read so that no thread of Arrow ever holds a Python object.

By default deltalake gives Arrow's dataset reader a file system that is a Python object. The last
of Arrow's threads lets go of it some time after the rows are there. When the interpreter ends in
that moment, the process is aborted after its work was done (docs/decisions/0113).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def delta_rows(
    table: DeltaTable,
    columns: list[str] | None = None,
    where: ds.Expression | None = None,
    most: int | None = None,
) -> pa.Table:
    """Return the rows of a table for which ``where`` holds; all columns when none are named.

    ``most``: stop when there are so many.
    """
    location = urlsplit(table.table_uri)
    if location.scheme in ("", "file"):
        # Arrow's own file system: threads at will, nothing of Python in them.
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
    """Return the same by way of deltalake's file system, which knows every store: in this thread.

    Arrow opens and reads a file in the thread that asks, when it is told to use no other.
    """
    # This import looks for pandas, which some processes do without (world/arrow_alone.py).
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
    """Return the rows of a file with the columns of the table: its partition's, and new ones."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.repeat(pa.scalar(keys.get(field.name), field.type), rows.num_rows)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
