"""Writes the memberships of one version to Delta without Spark.

The bulk job writes the same table. In a local folder several threads write the Parquet files: the
general writer of the deltalake package takes three times as long for 28 million rows.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from schemas.membership import MEMBERSHIPS_TABLE, PEID, STAGE_NO, SUB_ID, VERSION
from world.long_work import in_threads
from world.memberships.resolved_sets import ResolvedSets
from world.memberships.run_commits import (
    Commit,
    RunMark,
    append_run,
    commit_version,
    replacement,
    statistics_of,
)
from world.versions.delta_tables import (
    find_table,
    open_table,
    remove_versions_from,
    table_errors,
    versions_in,
)
from world.versions.removal import remove_files

# Columns that are not nullable are written without a check for nulls.
FILE_SCHEMA: Final = pa.schema(
    [
        pa.field(SUB_ID, pa.int64(), nullable=False),
        pa.field(PEID, pa.int64(), nullable=False),
        pa.field(STAGE_NO, pa.int32(), nullable=False),
    ]
)
# Each file is written by one thread; Arrow releases the interpreter's lock. More files at once than
# cores are no faster.
FILES: Final = 4


def write_files(table: Path, version: int, result: ResolvedSets) -> list[AddAction]:
    """Write the files of a version; they are in the table once the actions are committed."""
    folder = f"{VERSION}={version}"
    (table / folder).mkdir(parents=True, exist_ok=True)
    parts = result.split(FILES)
    names = [f"{folder}/part-{place:05d}-{uuid.uuid4()}.parquet" for place in range(len(parts))]
    written = in_threads(
        lambda part: _write(table, part[0], version, part[1]), zip(names, parts, strict=True)
    )
    return [action for action in written if action is not None]


def _write(table: Path, name: str, version: int, part: ResolvedSets) -> AddAction | None:
    path = table / name
    # No dictionary: the rows of a neighborhood repeat, and LZ4 finds the repetitions.
    with pq.ParquetWriter(path, FILE_SCHEMA, compression="lz4", use_dictionary=False) as writer:
        for columns in part.memberships():
            arrays = [pa.array(column) for column in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA))
    written = pq.read_metadata(path)
    if not written.num_rows:
        path.unlink()
        return None
    return AddAction(
        path=name,
        size=path.stat().st_size,
        partition_values={VERSION: str(version)},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=statistics_of(written),
    )


SCHEMA: Final = pa.schema([pa.field(VERSION, pa.int64(), nullable=False), *FILE_SCHEMA])
# Every writer checks them. They are given when the table is made, with the version of Delta's
# protocol that has checks: deltalake would write a check that is added later with quoted
# names, and Spark reads those as texts.
CHECKS: Final = {
    "delta.minWriterVersion": "3",
    f"delta.constraints.{SUB_ID}": f"{SUB_ID} >= 0",
    f"delta.constraints.{PEID}": f"{PEID} >= 0",
    f"delta.constraints.{STAGE_NO}": f"{STAGE_NO} >= 1",
}


def memberships_path(out: str) -> str:
    """Return the path of the table in the output folder."""
    return f"{out.rstrip('/')}/{MEMBERSHIPS_TABLE}"


def create_memberships(path: str, keys: dict[str, str] | None = None) -> None:
    """Make the empty table of memberships with its checks, if there is none."""
    with table_errors(path.removeprefix("file://")):
        if find_table(path, None, keys) is not None:
            return
        with suppress(CommitFailedError):  # another run makes it at this moment
            DeltaTable.create(
                path, SCHEMA, mode="ignore", partition_by=[VERSION], configuration=CHECKS,
                raise_if_key_not_exists=False, storage_options=keys,
            )  # fmt: skip


def write_memberships(out: str, version: int, result: ResolvedSets, run: str) -> tuple[int, int]:
    """Replace the memberships of the version; return the number of rows and of the commit."""
    path = memberships_path(out)
    with table_errors(path):
        create_memberships(path)
        rows = result.membership_count()
        if not rows:
            commit = replacement(version, [], SCHEMA, [VERSION])
        elif "://" not in path:
            actions = write_files(Path(path), version, result)
            commit = replacement(version, actions, SCHEMA, [VERSION])
        else:
            commit = _through(version, result)
        number = commit_version(lambda: open_table(path), version, commit, run=run)
    append_run(out, RunMark(version, run, number, rows))
    return rows, number


def remove_memberships(out: str, kept: frozenset[int]) -> list[int]:
    """Remove the memberships of all versions but ``kept``, and old files; return the versions."""
    path = memberships_path(out)
    with table_errors(path):
        table = find_table(path)
        if table is None:
            return []
        gone = sorted(versions_in(table) - kept)
        remove_versions_from(table, gone)
        remove_files(table)
    return gone


def _through(version: int, result: ResolvedSets) -> Commit:
    """Return the commit that writes into an object store, with the deltalake writer."""

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
