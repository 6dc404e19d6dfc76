"""Level after level: the members of all nodes, those of one level at once.

Levels follow each other without a stop: a task selects the members of a level and asks for the
next one before it lets its bucket go. Nothing is held in memory between two stages but what the
exchanges keep on disk, so the loss of an executor costs a few tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from jobs.pipeline.pairs.related_tables import RelatedWorld
from jobs.pipeline.stage_progress import stage_progress
from jobs.pipeline.stages.level_progress import LevelProgress
from jobs.pipeline.stages.level_tasks import (
    FarTotals,
    LevelTasks,
    existing,
    known_members,
    measured,
    members_here,
    staying,
)
from jobs.pipeline.stages.resolved_set_cache import KnownSets
from jobs.pipeline.subscriptions.compiled_batch import CompiledBatch, LevelPlan
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import REFERENCE
from spatial_udfs.bulk.batch_tables import widest_reaches
from spatial_udfs.bulk.sedona_distances import PACKED_TYPES, REACH, near_pairs, packed
from spatial_udfs.bulk.stage_rows import Members, routed
from spatial_udfs.entity_table import Int64s
from spatial_udfs.topology.shapes import SHAPE_COUNT

# Up to so many references are sent to every task that measures distances.
BROADCAST_ORIGINS: Final = 20_000


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What one level cost and gave."""

    level: int
    nodes: int
    members: int
    seconds: float


class LevelLoop:
    """Resolves a batch. Its state has a partition for each bucket, with the members of all levels.

    Level 0 are the references as written, as far as they exist.
    """

    def __init__(
        self,
        spark: SparkSession,
        world: WorldVersion,
        related: RelatedWorld,
        batch: CompiledBatch,
        known: KnownSets,
    ) -> None:
        self._spark = spark
        self._world = world
        self._batch = batch
        self._known = known
        self._buckets = related.buckets.buckets
        context = spark.sparkContext
        self.tables = context.broadcast(batch.tables)
        self.places = context.broadcast(related.buckets)
        self._heavy = related.buckets.heavy
        self.reports: list[LevelReport] = []
        self.existing: Int64s = np.empty(0, np.int64)
        self.state: RDD[Any] = context.emptyRDD()

    def run(self, say: Callable[[str], None]) -> None:
        """All levels, each with a line that says what came out."""
        levels = self._batch.levels
        last = max((plan.level for plan in levels), default=0)

        def tell(plan: LevelPlan, members: int, seconds: float) -> None:
            say(
                f"level {plan.level} of {last}: {plan.nodes:,} sets, "
                f"{members:,} members, {seconds:.1f} s"
            )

        with (
            stage_progress(self._spark, "levels", say),
            LevelProgress(self._spark, levels, self._buckets, tell) as progress,
        ):
            self.state = self._begun()
            for plan in levels:
                self._advance(plan, progress)
            found = self.state.mapPartitionsWithIndex(members_here(self.places)).collect()
            counts = np.sum([here.counts(last) for here in found], axis=0)
            progress.finish(counts)
        self.existing = np.unique(np.concatenate([here.references for here in found]))
        self.reports = [
            LevelReport(plan.level, plan.nodes, int(counts[plan.level]), seconds)
            for plan, seconds in zip(levels, progress.seconds(), strict=True)
        ]

    def release(self) -> None:
        """Let Spark forget what tasks looked up."""
        self.state.unpersist()
        self.tables.destroy()
        self.places.destroy()

    def _begun(self) -> RDD[Any]:
        """The references that exist, and the members that are known."""
        batch = self._batch
        written = Members(0, batch.reference_nodes, batch.references)
        sent = list(routed(written, self._buckets, self._heavy))
        context = self._spark.sparkContext
        begun = context.parallelize(sent, 1)
        if len(self._known.nodes):
            numbers = context.parallelize(range(self._buckets), self._buckets)
            task = known_members(self._known, self.tables, self.places)
            begun = begun.union(numbers.mapPartitionsWithIndex(task))
        return self._exchanged(begun, existing(self.places))

    def _advance(self, plan: LevelPlan, progress: LevelProgress) -> None:
        """Add a level to what is to be done."""
        tasks = LevelTasks(plan.edges, self.tables, self.places, progress.counts)
        asking = self.state
        if plan.edges.with_distances:
            near = self._near(tasks, plan).rdd.flatMap(measured(self._buckets))
            here = asking.mapPartitionsWithIndex(staying).union(near)
            asking = here.partitionBy(self._buckets, int).values()
        found = asking.mapPartitionsWithIndex(tasks.ask)
        self.state = self._exchanged(found, tasks.select(self._totals(tasks, plan)))

    def _exchanged(self, rows: RDD[Any], task: Callable[..., Any]) -> RDD[Any]:
        """What the task makes of each bucket, when all has come there."""
        state = rows.partitionBy(self._buckets, int).mapPartitionsWithIndex(task)
        # With a checkpoint folder the loss of a machine's disk costs a level, without it the run.
        if self._spark.sparkContext.getCheckpointDir() is not None:
            state.persist(StorageLevel.MEMORY_AND_DISK)
            state.checkpoint()
            state.count()
        return state

    def _near(self, tasks: LevelTasks, plan: LevelPlan) -> DataFrame:
        """Disjoint pairs of the level's references within their widest reach."""
        batch = self._batch
        if len(batch.references) <= BROADCAST_ORIGINS and plan.from_references_alone:
            few = True
            asked = widest_reaches(
                plan.edges, batch.tables, batch.reference_nodes, batch.references
            )
        else:
            everywhere: RDD[tuple[int, float]] = self.state.mapPartitionsWithIndex(tasks.reaches)
            few = everywhere.count() <= BROADCAST_ORIGINS
            if few:
                rows = everywhere.collect()
                asked = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
        if few:
            columns = pa.table(
                {REFERENCE: pa.array(asked[0], pa.int64()), REACH: pa.array(asked[1], pa.float64())}
            )
            frame = self._spark.createDataFrame(columns)
        else:
            frame = self._spark.createDataFrame(everywhere, f"{REFERENCE} bigint, {REACH} double")
        pairs = near_pairs(frame, self._world.entities(), plan.near_names, few=few)
        return pairs.mapInArrow(packed, PACKED_TYPES)

    def _totals(self, tasks: LevelTasks, plan: LevelPlan) -> FarTotals:
        """How many references the nodes have that far pairs matter to, of all buckets."""
        nothing = FarTotals(np.empty(0, np.int32), np.empty((0, SHAPE_COUNT), np.int64))
        if not plan.edges.with_far:
            return nothing
        parts = self.state.mapPartitionsWithIndex(tasks.far_references).collect()
        return reduce(added, parts, nothing)


def added(one: FarTotals, other: FarTotals) -> FarTotals:
    """The references of both."""
    nodes, places = np.unique(np.concatenate([one.nodes, other.nodes]), return_inverse=True)
    counts = np.zeros((len(nodes), SHAPE_COUNT), np.int64)
    np.add.at(counts, places, np.concatenate([one.counts, other.counts]))
    return FarTotals(nodes, counts)
