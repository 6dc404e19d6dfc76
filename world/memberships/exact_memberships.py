"""Memberships of one version into Delta without Spark, in the table that the bulk job writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake

from schemas.membership import MEMBERSHIPS_TABLE, PEID, STAGE_NO, SUB_ID, VERSION
from world.memberships.membership_files import write_files
from world.memberships.resolved_sets import ResolvedSets
from world.memberships.run_marks import RunMark, append_run
from world.memberships.version_commit import Commit, commit_version, replacement
from world.versions.leftovers import remove_files
from world.versions.table_errors import table_errors

SCHEMA: Final = pa.schema(
    [(VERSION, pa.int64()), (SUB_ID, pa.int64()), (PEID, pa.int64()), (STAGE_NO, pa.int32())]
)


def memberships_path(out: str) -> str:
    """The table under the folder of results."""
    return f"{out.rstrip('/')}/{MEMBERSHIPS_TABLE}"


def write_memberships(out: str, version: int, result: ResolvedSets, run: str) -> tuple[int, int]:
    """Replace the memberships of the version in one commit; return its rows and its number."""
    path = memberships_path(out)
    with table_errors(path):
        DeltaTable.create(path, SCHEMA, mode="ignore", partition_by=[VERSION])
        rows = result.membership_count()
        if not rows:
            commit = replacement(version, [], SCHEMA, [VERSION])
        elif "://" not in path:
            actions = write_files(Path(path), version, result)
            commit = replacement(version, actions, SCHEMA, [VERSION])
        else:
            commit = _through(version, result)
        number = commit_version(lambda: DeltaTable(path), version, commit, run=run)
    append_run(out, RunMark(version, run, number, rows))
    return rows, number


def remove_memberships(out: str, kept: frozenset[int]) -> list[int]:
    """Remove the memberships of all versions but these, and files that nobody needs any more."""
    path = memberships_path(out)
    with table_errors(path):
        if not DeltaTable.is_deltatable(path):
            return []
        table = DeltaTable(path)
        there = {int(partition[VERSION]) for partition in table.partitions()}
        gone = sorted(there - kept)
        if gone:
            table.delete(f"{VERSION} in ({', '.join(map(str, gone))})")
        remove_files(table)
    return gone


def _through(version: int, result: ResolvedSets) -> Commit:
    """Return the commit that writes into an object store, as the deltalake package does it."""

    def commit(table: DeltaTable, properties: CommitProperties) -> bool:
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(SCHEMA, _batches(version, result)),
            mode="overwrite",
            predicate=f"{VERSION} = {version}",
            writer_properties=WriterProperties(compression="ZSTD"),
            commit_properties=properties,
        )
        return True

    return commit


def _batches(version: int, result: ResolvedSets) -> Iterator[pa.RecordBatch]:
    for sub_ids, peids, stages in result.memberships():
        columns = [np.full(len(sub_ids), version, np.int64), sub_ids, peids, stages]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
