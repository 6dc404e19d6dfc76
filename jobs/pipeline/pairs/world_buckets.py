"""The buckets of a world version as tasks read them: files of the lake, remembered by workers.

Rows of a file ascend by reference or peid, in small row groups. A task that asks for few reads
only the row groups that have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.entity import CATEGORY_SET, ENTITY, GEOMETRY, HEAVY, PAIR_KIND, PEID, REFERENCE, SHAPE
from spatial_udfs.bulk.buckets import BucketEntities, PairRows
from spatial_udfs.entity_table import Int64s
from world.lake.bulk_tables import PAIRS, PLACED
from world.lake.lake_tables import LakeTable, lake_errors
from world.lake.scratch import remembered

# When more of a file's row groups are asked for, all of it is read and remembered.
MOST_READ_IN_PARTS: Final = 0.5

FilesByBucket = Mapping[int, tuple[str, ...]]
_PAIR_COLUMNS: Final = [REFERENCE, ENTITY, PAIR_KIND, CATEGORY_SET]
_PLACED_COLUMNS: Final = [PEID, SHAPE, CATEGORY_SET, HEAVY]


@dataclass(frozen=True, slots=True, eq=False)
class WorldBuckets:
    """Where each bucket of a version lies; sent to tasks with their code."""

    buckets: int
    related: LakeTable
    pair_files: FilesByBucket
    placed: LakeTable
    placed_files: FilesByBucket

    def pairs(self, bucket: int, asked: Int64s) -> PairRows:
        """Return related pairs of a bucket, those of the asked references (ascending) at least."""
        paths = self.pair_files.get(bucket, ())
        rows = _some_rows(self.related, paths, _PAIR_COLUMNS, asked)
        return PairRows(*_arrays(rows, _PAIR_COLUMNS, ordered=len(paths) < 2))

    def entities(self, bucket: int) -> BucketEntities:
        """Return the entities of a bucket, without their geometry."""
        paths = self.placed_files.get(bucket, ())
        rows = _all_rows(self.placed, paths, _PLACED_COLUMNS)
        columns = _arrays(rows, _PLACED_COLUMNS, ordered=len(paths) < 2)
        peids, shapes, category_sets, heavy = columns
        return BucketEntities(peids, shapes.astype(np.uint8), category_sets, heavy.astype(np.bool_))

    def geometries(self, bucket: int, asked: Int64s) -> pa.Array:
        """Return the geometries (WKB) of entities of a bucket; the peids ascend."""
        names = [PEID, GEOMETRY]
        rows = _some_rows(self.placed, self.placed_files.get(bucket, ()), names, asked)
        peids = rows.column(PEID).to_numpy()
        order = np.argsort(peids)
        places = order[np.searchsorted(peids, asked, sorter=order)]
        return rows.column(GEOMETRY).combine_chunks().take(pa.array(places))


def _some_rows(table: LakeTable, paths: Sequence[str], names: list[str], asked: Int64s) -> pa.Table:
    parts = [_empty(names)]
    with lake_errors(table.uri):
        store = table.store()
        for path in paths:
            footer = remembered((table.uri, path, "footer"), partial(_footer, store, path))
            groups = asked_groups(footer, names[0], asked)
            if len(groups) > MOST_READ_IN_PARTS * footer.num_row_groups:
                parts.append(_all_rows(table, [path], names))
            elif len(groups):
                with store.open_input_file(path) as opened:
                    file = pq.ParquetFile(opened, metadata=footer)
                    read = file.read_row_groups(groups.tolist(), columns=names, use_threads=False)
                    parts.append(read.select(names))
    return pa.concat_tables(parts[1:] or parts)


def asked_groups(footer: pq.FileMetaData, name: str, asked: Int64s) -> Int64s:
    """Return the row groups of a file that can have one of the asked numbers, which ascend."""
    place = footer.schema.names.index(name)
    found = [footer.row_group(number).column(place) for number in range(footer.num_row_groups)]
    least, most = (
        np.array([getattr(one.statistics, bound) for one in found], np.int64)
        for bound in ("min", "max")
    )
    return np.flatnonzero(
        np.searchsorted(asked, least) < np.searchsorted(asked, most, side="right")
    )


def _all_rows(table: LakeTable, paths: Sequence[str], names: list[str]) -> pa.Table:
    def read() -> tuple[int, pa.Table]:
        parts = [_empty(names)]
        store = table.store()
        for path in paths:
            with store.open_input_file(path) as opened:
                part = pq.ParquetFile(opened).read(columns=names, use_threads=False)
                parts.append(part.select(names))
        rows = pa.concat_tables(parts[1:] or parts).combine_chunks()
        return rows.nbytes, rows

    with lake_errors(table.uri):
        found: pa.Table = remembered((table.uri, *paths, *names), read)
        return found


def _footer(store: Any, path: str) -> tuple[int, pq.FileMetaData]:
    with store.open_input_file(path) as opened:
        footer = pq.read_metadata(opened)
    return footer.serialized_size, footer


def _empty(names: list[str]) -> pa.Table:
    schema = PAIRS if names[0] == REFERENCE else PLACED
    return pa.schema([schema.field(name) for name in names]).empty_table()


def _arrays(rows: pa.Table, names: list[str], *, ordered: bool) -> tuple[Any, ...]:
    columns = tuple(rows.column(name).to_numpy() for name in names)
    if ordered:
        return columns
    order = np.argsort(columns[0], kind="stable")
    return tuple(column[order] for column in columns)
