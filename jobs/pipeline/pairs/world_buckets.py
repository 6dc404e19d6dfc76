"""The buckets of a world version as tasks read them: files of the lake, remembered by workers.

Files never change once they are written, so a worker that has read one for a level need not
read it again for the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.pipeline.lake_tables import LakeTable, lake_errors
from schemas.entity import CATEGORY_SET, ENTITY, PAIR_KIND, PEID, REFERENCE, SHAPE
from spatial_udfs.bulk.batch_tables import Bools
from spatial_udfs.bulk.buckets import is_home
from spatial_udfs.bulk.world_bucket import BucketEntities, HeavyEntities, PairRows
from spatial_udfs.entity_table import Int64s

# What a worker remembers at the most. A bucket has some 5 MB.
MOST_REMEMBERED_BYTES: Final = 256 << 20

Columns = tuple[Any, ...]  # of integers, as wide as their fields
FilesByBucket = Mapping[int, tuple[str, ...]]

_remembered: OrderedDict[tuple[str, tuple[str, ...], tuple[str, ...]], Columns] = OrderedDict()


@dataclass(frozen=True, slots=True, eq=False)
class WorldBuckets:
    """Where each bucket of a version lies; sent to tasks with their code."""

    buckets: int
    heavy: HeavyEntities
    related: LakeTable
    pair_files: FilesByBucket
    placed: LakeTable
    placed_files: FilesByBucket

    def is_home(self, bucket: int, peids: Int64s) -> Bools:
        """Which of the entities have this bucket as their own; no file is read for that."""
        return is_home(peids, bucket, self.buckets)

    def pairs(self, bucket: int) -> PairRows:
        """The related pairs of a bucket."""
        names = (REFERENCE, ENTITY, PAIR_KIND, CATEGORY_SET)
        references, entities, kinds, category_sets = columns_of(
            self.related, self.pair_files.get(bucket, ()), names
        )
        return PairRows(references, entities, kinds, category_sets)

    def entities(self, bucket: int) -> BucketEntities:
        """The entities of a bucket, and the heavy ones of all."""
        names = (PEID, SHAPE, CATEGORY_SET)
        peids, shapes, category_sets = columns_of(
            self.placed, self.placed_files.get(bucket, ()), names
        )
        own = (peids, shapes.astype(np.uint8), category_sets)
        return BucketEntities.of(bucket, self.buckets, own, self.heavy)


def columns_of(table: LakeTable, paths: Sequence[str], names: tuple[str, ...]) -> Columns:
    """Columns of some files, by the first of them in ascending order."""
    key = (table.uri, tuple(paths), names)
    if key in _remembered:
        _remembered.move_to_end(key)
        return _remembered[key]
    columns = _read(table, paths, names)
    _remembered[key] = columns
    while len(_remembered) > 1 and _size() > MOST_REMEMBERED_BYTES:
        _remembered.popitem(last=False)
    return columns


def _read(table: LakeTable, paths: Sequence[str], names: tuple[str, ...]) -> Columns:
    if not paths:
        return tuple(
            np.empty(0, np.int64 if place < 1 else np.int32) for place in range(len(names))
        )
    store, parts = table.store(), []
    with lake_errors(table.uri):
        for path in paths:
            with store.open_input_file(path) as opened:
                file = pq.ParquetFile(opened)
                parts.append(file.read(columns=list(names), use_threads=False))
    rows = pa.concat_tables(parts).select(list(names))
    columns = tuple(column.to_numpy() for column in rows.columns)
    first = columns[0]
    if (first[1:] >= first[:-1]).all():
        return columns
    order = np.argsort(first, kind="stable")
    return tuple(column[order] for column in columns)


def _size() -> int:
    return sum(column.nbytes for columns in _remembered.values() for column in columns)
