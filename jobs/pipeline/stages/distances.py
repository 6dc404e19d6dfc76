"""Distances of a level: Sedona measures from its references, with the world read once.

The geometries of the references come from the buckets that they are in, so only what is measured
to is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, Sent, Tasks, batches_of
from jobs.pipeline.stages.batch_state import CellReader
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import GEOMETRY, REFERENCE
from spatial_udfs.batch.compiled_slice import LevelPlan
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.sedona_joins import REACH, near_pairs
from spatial_udfs.bulk.stage_rows import NearPairs, by_bucket, routed, taken
from world.lake.scratch import Scratch, remembered

# Up to so many references are sent to every task that measures distances.
BROADCAST_ORIGINS: Final = 20_000
# So many entities are within reach of a reference, about.
ROWS_OF_ORIGIN: Final = 200
# A batch of Arrow has 10,000 rows.
BATCHES_IN_FILE: Final = 100
ORIGINS: Final = pa.schema(
    [(REFERENCE, pa.int64()), (REACH, pa.float64()), (GEOMETRY, pa.binary())]
)
_ORIGIN_TYPES: Final = f"{REFERENCE} bigint, {REACH} double, {GEOMETRY} binary"


class Origins(NamedTuple):
    """References of a cell from which distances are measured, in a file."""

    path: str
    size: int


class NearFile(NamedTuple):
    """Measured pairs in a file."""

    path: str


@dataclass(frozen=True, slots=True)
class Distances:
    """The distances of a level: measured pairs in files, or rows for the cells of the entities."""

    files: tuple[NearFile, ...] = ()
    rows: DataFrame | None = None
    size: int = 0  # how many rows that are, about


NO_DISTANCES: Final = Distances()


def measured(
    tasks: Tasks,
    cells: CellReader,
    plan: LevelPlan,
    asking: Sequence[tuple[int, int]],
    world: WorldVersion,
    size: int,
) -> Distances:
    """Measure from the references of a level.

    What few references are near to lies in files, which the cells of these references read.
    """
    task = DistanceTask(cells, plan.level)
    origins: list[Origins] = tasks.run(task.origins, asking, f"level {plan.level}: origins", size)
    if not origins:
        return NO_DISTANCES
    paths = [f"{cells.scratch.at.uri}/{each.path}" for each in origins]
    frame = tasks.spark.read.schema(_ORIGIN_TYPES).parquet(*paths)
    if cells.state.slices > 1:
        widest = (F.max(REACH).alias(REACH), F.first(GEOMETRY).alias(GEOMETRY))
        frame = frame.groupBy(REFERENCE).agg(*widest)
    count = sum(each.size for each in origins)
    few = count <= BROADCAST_ORIGINS
    pairs = near_pairs(frame, world.entities(), plan.near_names, few=few)
    if few:
        kept = pairs.mapInArrow(_into_files(cells.scratch), BLOCK_TYPES)
        return Distances(tuple(tasks.values(kept, f"level {plan.level}: distances")))
    blocks = pairs.mapInArrow(_by_reference(cells.state.buckets), BLOCK_TYPES)
    size += ROWS_OF_ORIGIN * count
    return Distances(rows=tasks.cells(blocks, task.ask, cells.state.buckets, size), size=size)


def _by_reference(buckets: int) -> Any:
    """The task that packs measured pairs by the bucket of their reference."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches_of(chain.from_iterable(_divided(_pairs([b]), buckets) for b in batches))

    return pack


def _into_files(scratch: Scratch) -> Any:
    """The task that keeps measured pairs."""

    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def sent() -> Iterator[Sent]:
            waiting = iter(batches)
            while some := list(islice(waiting, BATCHES_IN_FILE)):
                yield DRIVER, NearFile(scratch.put("near", _pairs(some)))

        yield from batches_of(sent())

    return keep


def _pairs(batches: Sequence[pa.RecordBatch]) -> NearPairs:
    return NearPairs(*(column.to_numpy() for column in pa.Table.from_batches(batches).columns))


def _divided(pairs: NearPairs, buckets: int) -> Iterator[tuple[int, NearPairs]]:
    """The pairs by the bucket of their reference."""
    for bucket, places in by_bucket(pairs.references, buckets):
        yield bucket, taken(pairs, places)


class DistanceTask:
    """What tasks do for the distances of a level."""

    def __init__(self, cells: CellReader, level: int) -> None:
        self._cells = cells
        self._level = level

    def origins(self, cell: tuple[int, int]) -> Iterator[Sent]:
        """Write the references of a cell that distances are measured from, with their geometry."""
        stage = self._stage(*cell)
        if stage is None:
            return
        references, reaches = stage.reaches_asked()
        if not len(references):
            return
        geometries = self._cells.world.geometries(cell[0], references)
        rows = pa.table(
            [pa.array(references), pa.array(reaches), geometries.cast(pa.binary())], schema=ORIGINS
        )
        yield DRIVER, Origins(self._cells.scratch.put_rows("origins", rows), len(rows))

    def ask(self, bucket: int, blocks: list[NearPairs]) -> Iterator[Sent]:
        """Send the pairs that each node asks for to the cells of their entities."""
        for number in range(self._cells.state.slices):
            yield from self.ask_in_cell((bucket, number), blocks)

    def ask_files(self, cell: tuple[int, int], files: Iterable[NearFile]) -> Iterator[Sent]:
        """Send the same for one cell, out of files."""
        scratch, buckets = self._cells.scratch, self._cells.state.buckets

        def read(file: NearFile) -> tuple[int, dict[int, NearPairs]]:
            pairs = scratch.get(file.path)
            return sum(column.nbytes for column in pairs), dict(_divided(pairs, buckets))

        divided = (
            remembered((scratch.at.uri, file.path, "by bucket"), partial(read, file))
            for file in files
        )
        blocks = [found[cell[0]] for found in divided if cell[0] in found]
        if blocks:
            yield from self.ask_in_cell(cell, blocks)

    def ask_in_cell(self, cell: tuple[int, int], blocks: Sequence[NearPairs]) -> Iterator[Sent]:
        """Send the pairs that the nodes of a cell ask for to the cells of their entities."""
        near = NearPairs(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
        state, stage = self._cells.state, self._stage(*cell)
        if stage is not None:
            for to, rows in routed(stage.ask_near(near), state.buckets):
                yield state.cell(to, cell[1]), rows

    def _stage(self, bucket: int, number: int) -> BulkStage | None:
        cells = self._cells
        if number not in cells.state.compiled:
            return None
        compiled = cells.compiled(number)
        edges = compiled.levels.get(self._level)
        members = cells.members(bucket, number)
        if edges is None or not edges.with_distances or not len(members[0]):
            return None
        return BulkStage(edges, compiled.tables, cells.world.entities(bucket), members)
