"""Distances of a level: Sedona measures from its references, with the world read once.

The geometries of the references come from the buckets that they are in, so only what is measured
to is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, Sent, Tasks, batches_of
from jobs.pipeline.lake_tables import lake_errors
from jobs.pipeline.stages.batch_state import CellReader
from jobs.pipeline.stages.compiled_slice import LevelPlan
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import GEOMETRY, REFERENCE
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.sedona_distances import REACH, near_pairs
from spatial_udfs.bulk.stage_rows import NearPairs, by_bucket, routed, taken

# Up to so many references are sent to every task that measures distances.
BROADCAST_ORIGINS: Final = 20_000
ORIGINS: Final = pa.schema(
    [(REFERENCE, pa.int64()), (REACH, pa.float64()), (GEOMETRY, pa.binary())]
)
_ORIGIN_TYPES: Final = f"{REFERENCE} bigint, {REACH} double, {GEOMETRY} binary"


class Origins(NamedTuple):
    """References of a cell from which distances are measured, in a file."""

    path: str
    size: int


def near_rows(
    tasks: Tasks,
    cells: CellReader,
    plan: LevelPlan,
    asking: Sequence[tuple[int, int]],
    world: WorldVersion,
    size: int,
) -> DataFrame | None:
    """Return blocks of NearRows for the cells of the entities; None where nobody measures."""
    task = _DistanceTask(cells, plan.level)
    origins: list[Origins] = tasks.run(task.origins, asking, f"level {plan.level}: origins", size)
    if not origins:
        return None
    paths = [f"{cells.scratch.at.uri}/{each.path}" for each in origins]
    frame = tasks.spark.read.schema(_ORIGIN_TYPES).parquet(*paths)
    if cells.state.slices > 1:
        widest = (F.max(REACH).alias(REACH), F.first(GEOMETRY).alias(GEOMETRY))
        frame = frame.groupBy(REFERENCE).agg(*widest)
    few = sum(each.size for each in origins) <= BROADCAST_ORIGINS
    pairs = near_pairs(frame, world.entities(), plan.near_names, few=few)
    blocks = pairs.mapInArrow(_by_reference(cells.state.buckets), BLOCK_TYPES)
    return tasks.cells(blocks, task.ask, cells.state.buckets, size)


def _by_reference(buckets: int) -> Any:
    """The task that packs measured pairs by the bucket of their reference."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def sent() -> Iterator[Sent]:
            for batch in batches:
                pairs = NearPairs(*(column.to_numpy() for column in batch.columns))
                for bucket, places in by_bucket(pairs.references, buckets):
                    yield bucket, taken(pairs, places)

        yield from batches_of(sent())

    return pack


class _DistanceTask:
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
        yield DRIVER, Origins(self._written(rows), len(rows))

    def ask(self, bucket: int, blocks: list[NearPairs]) -> Iterator[Sent]:
        """Send the pairs that each node asks for to the cells of their entities."""
        near = NearPairs(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
        state = self._cells.state
        for number in range(state.slices):
            stage = self._stage(bucket, number)
            if stage is not None:
                for to, rows in routed(stage.ask_near(near), state.buckets):
                    yield state.cell(to, number), rows

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

    def _written(self, rows: pa.Table) -> str:
        at = self._cells.scratch.at
        path = self._cells.scratch.new_path("origins")
        with lake_errors(at.uri), at.store().open_output_stream(path) as stream:
            pq.write_table(rows, stream)
        return path
