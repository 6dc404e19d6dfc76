"""Level after level: the members of all nodes, those of one level at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from jobs.compiled_batch import CompiledBatch, LevelPlan
from jobs.known_sets import KnownSets
from jobs.level_tasks import (
    FarTotals,
    LevelTasks,
    existing,
    home_counts,
    home_entities,
    known_members,
    measured,
    staying,
)
from jobs.related_tables import RelatedWorld
from jobs.stage_progress import stage_progress
from jobs.world_tables import WorldVersion
from schemas.related import REFERENCE
from spatial_udfs.entity_table import Int64s
from spatial_udfs.sedona_distances import PACKED_TYPES, REACH, near_pairs, packed
from spatial_udfs.shapes import SHAPE_COUNT
from spatial_udfs.stage_rows import Members, routed

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
        self._members_so_far = 0
        self.state: RDD[Any] = context.emptyRDD()

    def run(self, say: Callable[[str], None]) -> None:
        """All levels, each with a line that says what came out."""
        self._begin()
        last = max((plan.level for plan in self._batch.levels), default=0)
        for plan in self._batch.levels:
            started = time.monotonic()
            with stage_progress(self._spark, f"level {plan.level}", say):
                count = self._advance(plan)
            seconds = time.monotonic() - started
            self.reports.append(LevelReport(plan.level, plan.nodes, count, seconds))
            say(
                f"level {plan.level} of {last}: {plan.nodes:,} sets, "
                f"{count:,} members, {seconds:.1f} s"
            )

    def release(self) -> None:
        """Let Spark forget the members."""
        self.state.unpersist()
        self.tables.destroy()
        self.places.destroy()

    def _begin(self) -> None:
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
        self.state = self._kept(begun.partitionBy(self._buckets, int), existing(self.places))
        found = self.state.mapPartitionsWithIndex(home_entities(self.places, 0)).collect()
        self._members_so_far = sum(count for count, _ in found)
        self.existing = np.unique(np.concatenate([peids for _, peids in found]))

    def _advance(self, plan: LevelPlan) -> int:
        """One level; how many members it has."""
        tasks = LevelTasks(plan.edges, self.tables, self.places)
        asking = self.state
        if plan.edges.with_distances:
            near = self._near(tasks, plan).rdd.flatMap(measured(self._buckets))
            here = asking.mapPartitionsWithIndex(staying).union(near)
            asking = here.partitionBy(self._buckets, int).values()
        found = asking.mapPartitionsWithIndex(tasks.ask).partitionBy(self._buckets, int)
        after = self._kept(found, tasks.select(self._totals(tasks, plan)))
        counts = after.mapPartitionsWithIndex(home_counts(self.places, plan.level)).collect()
        self.state.unpersist()
        self.state = after
        members = int(sum(counts))
        self._members_so_far += members
        return members

    def _near(self, tasks: LevelTasks, plan: LevelPlan) -> DataFrame:
        """Disjoint pairs of the level's references within their widest reach."""
        asked: RDD[tuple[int, float]] = self.state.mapPartitionsWithIndex(tasks.reaches)
        few = self._members_so_far <= BROADCAST_ORIGINS or asked.count() <= BROADCAST_ORIGINS
        if few:
            rows = asked.collect()
            frame = self._spark.createDataFrame(
                pa.table(
                    {
                        REFERENCE: pa.array([peid for peid, _ in rows], pa.int64()),
                        REACH: pa.array([reach for _, reach in rows], pa.float64()),
                    }
                )
            )
        else:
            frame = self._spark.createDataFrame(asked, f"{REFERENCE} bigint, {REACH} double")
        pairs = near_pairs(frame, self._world.entities(), plan.near_names, few=few)
        return pairs.mapInArrow(packed, PACKED_TYPES)

    def _totals(self, tasks: LevelTasks, plan: LevelPlan) -> FarTotals:
        """How many references the nodes have that far pairs matter to, of all buckets."""
        nothing = FarTotals(np.empty(0, np.int32), np.empty((0, SHAPE_COUNT), np.int64))
        if not plan.edges.with_far:
            return nothing
        parts = self.state.mapPartitionsWithIndex(tasks.far_references).collect()
        return reduce(added, parts, nothing)

    def _kept(self, exchanged: RDD[Any], task: Callable[..., Any]) -> RDD[Any]:
        """What the task makes of each bucket after an exchange, kept by the executors."""
        state = exchanged.mapPartitionsWithIndex(task).persist(StorageLevel.MEMORY_AND_DISK)
        # With a checkpoint folder the loss of an executor costs a level, without it some more.
        if self._spark.sparkContext.getCheckpointDir() is not None:
            state.checkpoint()
        return state


def added(one: FarTotals, other: FarTotals) -> FarTotals:
    """The references of both."""
    nodes, places = np.unique(np.concatenate([one.nodes, other.nodes]), return_inverse=True)
    counts = np.zeros((len(nodes), SHAPE_COUNT), np.int64)
    np.add.at(counts, places, np.concatenate([one.counts, other.counts]))
    return FarTotals(nodes, counts)
