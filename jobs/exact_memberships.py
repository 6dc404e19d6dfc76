"""Memberships of one version into Delta without Spark, in the table that the bulk job writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from jobs.membership_files import write_files
from jobs.resolved_sets import ResolvedSets
from schemas.errors import WorldError
from schemas.membership import MEMBERSHIPS_TABLE, PEID, STAGE_NO, SUB_ID, VERSION
from world.leftovers import remove_files

SCHEMA: Final = pa.schema(
    [(VERSION, pa.int64()), (SUB_ID, pa.int64()), (PEID, pa.int64()), (STAGE_NO, pa.int32())]
)


def memberships_path(out: str) -> str:
    """The table under the folder of results."""
    return f"{out.rstrip('/')}/{MEMBERSHIPS_TABLE}"


def write_memberships(out: str, version: int, result: ResolvedSets) -> int:
    """Replace the memberships of the version in one commit; how many rows it has."""
    path = memberships_path(out)
    try:
        DeltaTable.create(path, SCHEMA, mode="ignore", partition_by=[VERSION])
        rows = result.membership_count()
        if not rows:
            DeltaTable(path).delete(f"{VERSION} = {version}")
            return 0
        if "://" not in path:
            _commit_files(path, version, result)
        else:
            _write_through(path, version, result)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise WorldError(f"{path}: {' '.join(str(error).split())}") from error
    return rows


def remove_memberships(out: str, kept: frozenset[int]) -> list[int]:
    """Remove the memberships of all versions but these, and files that nobody needs any more."""
    path = memberships_path(out)
    try:
        if not DeltaTable.is_deltatable(path):
            return []
        table = DeltaTable(path)
        there = {int(partition[VERSION]) for partition in table.partitions()}
        gone = sorted(there - kept)
        if gone:
            table.delete(f"{VERSION} in ({', '.join(map(str, gone))})")
        remove_files(table)
    except (DeltaError, OSError) as error:
        raise WorldError(f"{path}: {' '.join(str(error).split())}") from error
    return gone


def _commit_files(path: str, version: int, result: ResolvedSets) -> None:
    """Files that were written beside the table's become those of the version."""
    table = DeltaTable(path)
    table.create_write_transaction(
        [*write_files(Path(path), version, result)],
        mode="overwrite",
        schema=SCHEMA,
        partition_by=[VERSION],
        partition_filters=[(VERSION, "=", str(version))],
    )


def _write_through(path: str, version: int, result: ResolvedSets) -> None:
    """Into an object store, by whatever way the deltalake package knows there."""
    write_deltalake(
        path,
        pa.RecordBatchReader.from_batches(SCHEMA, _batches(version, result)),
        mode="overwrite",
        predicate=f"{VERSION} = {version}",
        writer_properties=WriterProperties(compression="ZSTD"),
    )


def _batches(version: int, result: ResolvedSets) -> Iterator[pa.RecordBatch]:
    for sub_ids, peids, stages in result.memberships():
        columns = [np.full(len(sub_ids), version, np.int64), sub_ids, peids, stages]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
