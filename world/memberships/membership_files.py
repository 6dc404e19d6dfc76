"""Parquet files of memberships, written by several threads into the folder of a local Delta table.

The general writer of the deltalake package takes three times as long for 28 million rows.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION
from world.in_threads import in_threads
from world.memberships.file_statistics import statistics_of
from world.memberships.resolved_sets import ResolvedSets

# Columns that say of themselves that nothing is missing are written without looking for it.
FILE_SCHEMA: Final = pa.schema(
    [
        pa.field(SUB_ID, pa.int64(), nullable=False),
        pa.field(PEID, pa.int64(), nullable=False),
        pa.field(STAGE_NO, pa.int32(), nullable=False),
    ]
)
# Each is written by one thread, as many at once as there are cores: more would only give each
# other's memory back and forth. Arrow does its work outside of Python's lock.
FILES: Final = 4


def write_files(table: Path, version: int, result: ResolvedSets) -> list[AddAction]:
    """Write the rows of a version; the files count when the actions are committed."""
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
    # Plain numbers: rows of a neighborhood come again and again, which LZ4 finds by itself.
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
