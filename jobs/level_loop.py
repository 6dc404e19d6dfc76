"""Level after level: the members of all nodes, those of one level in the same few joins."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.compiled_batch import CompiledBatch, LevelFacts
from jobs.kept_frames import kept, kept_and_counted
from jobs.related_tables import RelatedWorld
from jobs.stage_progress import stage_progress
from jobs.world_tables import WorldVersion
from schemas.entity import PEID
from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE, SALT
from spatial_udfs.sedona_distances import near_pairs, origins
from spatial_udfs.sedona_entities import placed_entities
from spatial_udfs.sedona_far_nodes import far_nodes, selected_with_far
from spatial_udfs.sedona_stage_graph import JOINED, LEVEL, NODE, REFERRED
from spatial_udfs.sedona_stages import (
    IS_JOINED,
    NODE_COLUMNS,
    SOURCE,
    Lookups,
    references_of,
    related_pairs,
    selected,
)

# Edges belong to the batch, not to the world: up to this many, every task gets all of them.
BROADCAST_EDGES: Final = 500_000
# A reference and what it carries of its node take some 60 bytes.
BROADCAST_REFERENCES: Final = 500_000
BROADCAST_ORIGINS: Final = 20_000


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What one level cost and gave."""

    level: int
    nodes: int
    members: int
    seconds: float


class LevelLoop:
    """Resolves a batch; afterwards ``members`` has rows (node, entity) for each level."""

    def __init__(
        self, spark: SparkSession, world: WorldVersion, related: RelatedWorld, batch: CompiledBatch
    ) -> None:
        """Prepare what every level looks up."""
        self._spark = spark
        self._world = world
        self._batch = batch
        self._lookups = self._prepared_lookups(related)
        self.members: list[DataFrame] = []
        self.reports: list[LevelReport] = []

    def run(self, say: Callable[[str], None]) -> None:
        """All levels, each with a line that says what came out."""
        self._keep(self._existing_references())
        last = len(self._batch.levels)
        for facts in self._batch.levels:
            started = time.monotonic()
            with stage_progress(self._spark, f"level {facts.level}", say):
                count = self._keep(self._members_of(facts))
            seconds = time.monotonic() - started
            self.reports.append(LevelReport(facts.level, facts.nodes, count, seconds))
            say(
                f"level {facts.level} of {last}: {facts.nodes:,} sets, "
                f"{count:,} members, {seconds:.1f} s"
            )

    def release(self) -> None:
        """Let Spark forget what the levels looked up."""
        self._lookups.pairs.unpersist()
        self._lookups.laid_out_pairs.unpersist()
        self._lookups.entities.unpersist()

    def _prepared_lookups(self, related: RelatedWorld) -> Lookups:
        batch = self._batch
        pairs = related.pairs.join(
            F.broadcast(batch.sets.select(CATEGORY_SET).distinct()),
            on=CATEGORY_SET,
            how="left_semi",
        )
        if not any(facts.far_nodes for facts in batch.levels):
            used = F.broadcast(batch.kinds.select(PAIR_KIND).distinct())
            pairs = pairs.join(used, on=PAIR_KIND, how="left_semi")
        used_pairs = pairs.persist(StorageLevel.MEMORY_AND_DISK)
        # Only a level with very many references asks for it, and then every one after it.
        laid_out = used_pairs.repartition(REFERENCE, SALT).sortWithinPartitions(REFERENCE, SALT)
        entities = placed_entities(self._world.entities, related.category_sets)
        return Lookups(
            pairs=used_pairs,
            laid_out_pairs=laid_out.persist(StorageLevel.MEMORY_AND_DISK),
            heavy=related.heavy,
            kinds=batch.kinds,
            spans=batch.spans,
            sets=batch.sets,
            entities=entities.persist(StorageLevel.MEMORY_AND_DISK),
        )

    def _existing_references(self) -> DataFrame:
        existing = self._world.entities.select(F.col(PEID).alias(REFERENCE))
        written = self._batch.references()
        if self._batch.facts.references <= BROADCAST_EDGES:
            written = F.broadcast(written)
        found = existing.join(written, on=REFERENCE, how="inner")
        return found.select(NODE, F.col(REFERENCE).alias(ENTITY))

    def _members_of(self, facts: LevelFacts) -> DataFrame:
        with_failing = facts.far_nodes > 0
        asked = self._references(facts)
        if with_failing:
            # Counting needs each reference once.
            asked = asked.groupBy(*NODE_COLUMNS, REFERENCE).agg(F.max(IS_JOINED).alias(IS_JOINED))
        references, count = kept_and_counted(asked)
        few = count <= BROADCAST_REFERENCES
        pairs = [related_pairs(references, self._lookups, few=few, with_failing=with_failing)]
        if facts.with_distances:
            pairs.append(self._near_pairs(references, with_failing=with_failing))
        if not with_failing:
            return selected(pairs, references)
        nodes = kept(far_nodes(references, self._lookups))
        return selected_with_far(pairs, references, nodes, self._lookups)

    def _references(self, facts: LevelFacts) -> DataFrame:
        """The members of the nodes that the nodes of this level refer to."""
        nodes = self._batch.nodes.where(F.col(LEVEL) == facts.level)
        edges = nodes.select(*NODE_COLUMNS, JOINED, F.explode(REFERRED).alias(SOURCE)).select(
            *NODE_COLUMNS, SOURCE, F.array_contains(JOINED, F.col(SOURCE)).alias(IS_JOINED)
        )
        if facts.edges <= BROADCAST_EDGES:
            edges = F.broadcast(edges)
        members = reduce(DataFrame.unionAll, self.members[facts.referred_from : facts.level])
        return references_of(edges, members)

    def _near_pairs(self, references: DataFrame, *, with_failing: bool) -> DataFrame:
        sources, count = kept_and_counted(origins(references, self._lookups))
        # Few of them: every task searches its entities for all. Many: both sides are divided.
        if count <= BROADCAST_ORIGINS:
            sources = F.broadcast(sources)
        return near_pairs(references, sources, self._lookups, with_failing=with_failing)

    def _keep(self, members: DataFrame) -> int:
        """Compute the members of a level and count them."""
        frame, count = kept_and_counted(members)
        self.members.append(frame)
        return count
