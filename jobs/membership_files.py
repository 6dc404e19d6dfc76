"""Parquet files of memberships, written by several threads into the folder of a local Delta table.

The general writer of the deltalake package takes three times as long for 28 million rows.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from numpy.typing import NDArray

from jobs.resolved_sets import ResolvedSets
from schemas.membership import PEID, STAGE_NO, SUB_ID, VERSION

FILE_SCHEMA: Final = pa.schema([(SUB_ID, pa.int64()), (PEID, pa.int64()), (STAGE_NO, pa.int32())])
# Each is written by one thread; Arrow does its work outside of Python's lock.
FILES: Final = 4
# Entities are too many for a dictionary: as plain numbers they compress better, and faster.
DICTIONARIES: Final = [SUB_ID, STAGE_NO]

# Columns in the order of the schema.
Block = tuple[NDArray[np.integer[Any]], ...]


def write_files(table: Path, version: int, result: ResolvedSets) -> list[AddAction]:
    """Write the rows of a version; the files count when the actions are committed."""
    folder = f"{VERSION}={version}"
    (table / folder).mkdir(parents=True, exist_ok=True)
    parts = result.split(FILES)
    names = [f"{folder}/part-{place:05d}-{uuid.uuid4()}.parquet" for place in range(len(parts))]
    with ThreadPoolExecutor(FILES) as threads:
        written = threads.map(lambda name, part: _write(table, name, version, part), names, parts)
        return [action for action in written if action is not None]


def _write(table: Path, name: str, version: int, part: ResolvedSets) -> AddAction | None:
    path = table / name
    statistics = _Statistics()
    with pq.ParquetWriter(
        path, FILE_SCHEMA, compression="lz4", use_dictionary=DICTIONARIES
    ) as writer:
        for columns in statistics.watched(part.memberships()):
            arrays = [pa.array(column) for column in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA))
    if not statistics.rows:
        path.unlink()
        return None
    return AddAction(
        path=name,
        size=path.stat().st_size,
        partition_values={VERSION: str(version)},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=statistics.to_json(),
    )


class _Statistics:
    """What Delta keeps about a file, so that readers can leave it out."""

    def __init__(self) -> None:
        self.rows = 0
        self._lowest: dict[str, int] = {}
        self._highest: dict[str, int] = {}

    def watched(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            if not len(block[0]):
                continue
            self.rows += len(block[0])
            for name, column in zip(FILE_SCHEMA.names, block, strict=True):
                low, high = int(column.min()), int(column.max())
                self._lowest[name] = min(low, self._lowest.get(name, low))
                self._highest[name] = max(high, self._highest.get(name, high))
            yield block

    def to_json(self) -> str:
        content = {
            "numRecords": self.rows,
            "minValues": self._lowest,
            "maxValues": self._highest,
            "nullCount": dict.fromkeys(FILE_SCHEMA.names, 0),
        }
        return json.dumps(content, separators=(",", ":"))
