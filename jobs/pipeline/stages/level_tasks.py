"""What executors do for a level: ask in each bucket, exchange, select in each bucket.

The partition of a task is its bucket. Between levels a partition holds *blocks*: the members of
every level so far. They stay where they are; what is found travels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from pyspark import Accumulator, Broadcast

from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.stages.level_progress import Told
from jobs.pipeline.stages.resolved_set_cache import KnownSets
from spatial_udfs.bulk.batch_tables import BatchTables, Int32s, LevelEdges
from spatial_udfs.bulk.bulk_stage import BulkStage, Counts
from spatial_udfs.bulk.python_workers import spare_idle_work
from spatial_udfs.bulk.stage_rows import (
    Members,
    NearPairs,
    NearRows,
    RelatedRows,
    by_bucket,
    routed,
    taken,
)
from spatial_udfs.entity_table import Int64s

spare_idle_work()

Routed: TypeAlias = tuple[int, Any]
PartitionTask: TypeAlias = Callable[[int, Iterable[Any]], Iterator[Any]]


class FarTotals(NamedTuple):
    """How many references of each shape the nodes have that far pairs matter to."""

    nodes: Int32s
    counts: Counts


class LevelTasks:
    """The tasks of one level; sent to executors with what they look up."""

    def __init__(
        self,
        edges: LevelEdges,
        tables: Broadcast[BatchTables],
        world: Broadcast[WorldBuckets],
        counts: Accumulator[Told],
    ) -> None:
        self._edges = edges
        self._counts = counts
        self._tables = tables
        self._world = world

    def ask(self, bucket: int, blocks: Iterable[Any]) -> Iterator[Routed]:
        """Everything that the references here find, by the bucket it goes to."""
        state = list(blocks)
        world = self._world.value
        stage = self._stage(bucket, state)
        for block in state:
            if isinstance(block, Members):
                yield bucket, block
        for related in stage.ask_related(world.pairs(bucket)):
            yield from routed(related, world.buckets, world.heavy)
        for block in state:
            if isinstance(block, NearPairs):
                yield from routed(stage.ask_near(block), world.buckets, world.heavy)

    def select(self, totals: FarTotals) -> PartitionTask:
        """The task that decides who is a member."""

        def work(bucket: int, rows: Iterable[Routed]) -> Iterator[Members]:
            blocks = [block for _, block in rows]
            stage = self._stage(bucket, blocks)
            yield from (block for block in blocks if isinstance(block, Members))
            members = stage.select(
                [block for block in blocks if isinstance(block, RelatedRows)],
                [block for block in blocks if isinstance(block, NearRows)],
                *totals,
            )
            home = self._world.value.is_home(bucket, members.entities)
            self._counts.add({(self._edges.level, bucket): int(home.sum())})
            yield members

        return work

    def reaches(self, bucket: int, blocks: Iterable[Any]) -> Iterator[tuple[int, float]]:
        """References from which distances are measured, with their widest reach."""
        references, reaches = self._stage(bucket, list(blocks)).reaches_asked()
        yield from zip(references.tolist(), reaches.tolist(), strict=True)

    def far_references(self, bucket: int, blocks: Iterable[Any]) -> Iterator[FarTotals]:
        """How many references of each shape are here."""
        yield FarTotals(*self._stage(bucket, list(blocks)).references_by_shape())

    def _stage(self, bucket: int, state: list[Any]) -> BulkStage:
        entities = self._world.value.entities(bucket)
        return BulkStage(self._edges, self._tables.value, entities, state)


def staying(bucket: int, blocks: Iterable[Any]) -> Iterator[Routed]:
    """Blocks on their way to an exchange in which they stay in their bucket."""
    for block in blocks:
        yield bucket, block


def measured(buckets: int) -> Callable[[Any], list[Routed]]:
    """Measured pairs by the bucket of their reference."""

    def route(row: Any) -> list[Routed]:
        pairs = NearPairs.of_bytes(bytes(row[0]), bytes(row[1]), bytes(row[2]))
        return [
            (bucket, taken(pairs, places))
            for bucket, places in by_bucket(pairs.references, buckets)
        ]

    return route


def existing(world: Broadcast[WorldBuckets]) -> PartitionTask:
    """The task that leaves only references that the world has."""

    def work(bucket: int, rows: Iterable[Routed]) -> Iterator[Members]:
        entities = world.value.entities(bucket)
        for _, block in rows:
            there = np.flatnonzero(entities.has(block.entities))
            yield taken(block, there)

    return work


class MembersHere(NamedTuple):
    """How many members each level has in a bucket, and which references exist there."""

    by_level: dict[int, int]
    references: Int64s

    def counts(self, last: int) -> list[int]:
        """The members by level, from 0 to the last one."""
        return [self.by_level.get(level, 0) for level in range(last + 1)]


def members_here(world: Broadcast[WorldBuckets]) -> PartitionTask:
    """The task that counts members, each in one bucket alone."""

    def work(bucket: int, blocks: Iterable[Members]) -> Iterator[MembersHere]:
        by_level: dict[int, int] = {}
        references = [np.empty(0, np.int64)]
        for block in blocks:
            home = world.value.is_home(bucket, block.entities)
            by_level[block.level] = by_level.get(block.level, 0) + int(home.sum())
            if block.level == 0:
                references.append(np.unique(block.entities[home]))
        yield MembersHere(by_level, np.concatenate(references))

    return work


def known_members(
    known: KnownSets, tables: Broadcast[BatchTables], world: Broadcast[WorldBuckets]
) -> PartitionTask:
    """The task that reads the members of sets that are known, of the bucket that it is for."""

    def work(bucket: int, _: Iterable[int]) -> Iterator[Routed]:
        for members in known.members(bucket, tables.value):
            yield from routed(members, world.value.buckets, world.value.heavy)

    return work
