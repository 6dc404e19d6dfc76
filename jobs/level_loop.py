"""Level after level: the members of all nodes, those of one level in the same few joins."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.compiled_batch import CompiledBatch, LevelFacts
from jobs.kept_frames import BROADCAST_ROWS, kept, kept_and_counted, sent
from jobs.known_sets import KnownSets
from jobs.related_tables import RelatedWorld
from jobs.stage_progress import stage_progress
from jobs.world_tables import WorldVersion
from schemas.entity import PEID
from schemas.related import CATEGORY_SET, ENTITY, NODE, PAIR_KIND, REFERENCE, SALT
from spatial_udfs.sedona_distances import near_pairs, origins
from spatial_udfs.sedona_entities import category_sets
from spatial_udfs.sedona_far_nodes import far_nodes, selected_with_far
from spatial_udfs.sedona_places import EntityPlaces
from spatial_udfs.sedona_stages import (
    IS_JOINED,
    NODE_COLUMNS,
    SOURCE,
    Lookups,
    references_of,
    related_pairs,
    selected,
)

BROADCAST_ORIGINS: Final = 20_000


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What one level cost and gave."""

    level: int
    nodes: int
    members: int
    seconds: float


class LevelLoop:
    """Resolves a batch; afterwards ``members`` has rows (node, entity) for each level.

    Level 0 are the references as written, as far as they exist. Nodes that were known before
    are in none of the levels.
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
        self._related = related
        self._batch = batch
        self._known = known
        self.members: dict[int, DataFrame] = {}
        self.counts: dict[int, int] = {}
        self.reports: list[LevelReport] = []

    def run(self, say: Callable[[str], None]) -> None:
        """All levels, each with a line that says what came out."""
        self._keep(0, self._existing_references())
        last = max((facts.level for facts in self._batch.levels), default=0)
        for facts in self._batch.levels:
            started = time.monotonic()
            with stage_progress(self._spark, f"level {facts.level}", say):
                count = self._keep(facts.level, self._members_of(facts))
            seconds = time.monotonic() - started
            self.reports.append(LevelReport(facts.level, facts.nodes, count, seconds))
            say(
                f"level {facts.level} of {last}: {facts.nodes:,} sets, "
                f"{count:,} members, {seconds:.1f} s"
            )

    def missing_references(self) -> int:
        """How many of the references as written the world does not have."""
        return len(self._batch.graph.references) - self.counts[0]

    def resolved(self) -> list[DataFrame]:
        """The members of the nodes that were resolved here, without the references as written."""
        return [frame for level, frame in self.members.items() if level]

    def everything(self) -> list[DataFrame]:
        """All members that are known now."""
        known = [] if self._known.members is None else [self._known.members]
        return [*self.members.values(), *known]

    def count(self) -> int:
        """How many these are."""
        return sum(self.counts.values()) + self._known.count

    def release(self) -> None:
        """Let Spark forget what the levels looked up."""
        if "_lookups" in vars(self):
            self._lookups.pairs.unpersist()
            self._lookups.laid_out_pairs.unpersist()
            self._lookups.places.release()

    @cached_property
    def _lookups(self) -> Lookups:
        """What every level looks up; prepared for the first one, if there is one."""
        batch, related = self._batch, self._related
        with_far = any(facts.far_nodes for facts in batch.levels)
        used = F.col(CATEGORY_SET).isin(batch.used_sets())
        if not with_far:
            used &= F.col(PAIR_KIND).isin(batch.used_kinds())
        pairs = related.pairs.where(used)
        if related.writing is None:  # else they are in memory as they are
            pairs = pairs.persist(StorageLevel.MEMORY_AND_DISK)
        # Only a level with very many references asks for it, and then every one after it.
        laid_out = pairs.repartition(REFERENCE, SALT).sortWithinPartitions(REFERENCE, SALT)
        with_distances = sum(1 for facts in batch.levels if facts.with_distances)
        return Lookups(
            pairs=pairs,
            laid_out_pairs=laid_out.persist(StorageLevel.MEMORY_AND_DISK),
            heavy=related.heavy,
            kinds=self._small(batch.kinds),
            spans=self._small(batch.spans),
            sets=self._small(batch.sets),
            places=EntityPlaces(
                self._world.entities,
                category_sets(self._spark, related.vocabulary),
                kept=related.entities,
                often=with_far or with_distances > 1,
            ),
        )

    def _small(self, table: pa.Table) -> DataFrame:
        """A small table of the driver: part of a plan, so that no job is needed to send it."""
        return self._spark.createDataFrame(table)

    def _existing_references(self) -> DataFrame:
        existing = self._world.entities.select(F.col(PEID).alias(REFERENCE))
        written = sent(self._spark, self._batch.graph.references)
        found = existing.join(written, on=REFERENCE, how="inner")
        return found.select(NODE, F.col(REFERENCE).alias(ENTITY))

    def _members_of(self, facts: LevelFacts) -> DataFrame:
        with_failing = facts.far_nodes > 0
        references, most = self._references(facts)
        few = most <= BROADCAST_ROWS
        pairs = [related_pairs(references, self._lookups, few=few, with_failing=with_failing)]
        if facts.with_distances:
            sources = origins(references, self._lookups, few=few)
            if most > BROADCAST_ORIGINS:
                sources, most = kept_and_counted(sources)
            # Few of them: every task searches its entities for all. Many: both are divided.
            if most <= BROADCAST_ORIGINS:
                sources = F.broadcast(sources)
            targets = self._lookups.places.targets(facts.distance_sets)
            pairs.append(
                near_pairs(
                    references, sources, targets, self._lookups, few=few, with_failing=with_failing
                )
            )
        if not with_failing:
            return selected(pairs, references)
        nodes = kept(far_nodes(references, self._lookups))
        return selected_with_far(pairs, references, nodes, self._lookups)

    def _references(self, facts: LevelFacts) -> tuple[DataFrame, int]:
        """The members of the nodes that those of this level refer to, and at most how many.

        That there are few can mostly be told without computing them; then they are part of the
        plan that uses them.
        """
        levels = [at for at in self.members if facts.referred_from <= at < facts.level]
        members = [self.members[at] for at in levels]
        count = sum(self.counts[at] for at in levels)
        known = self._known
        if known.members is not None and known.among(facts.edges.column(SOURCE).to_numpy()):
            members.append(known.members)
            count += known.count
        references = references_of(
            sent(self._spark, facts.edges), reduce(DataFrame.unionAll, members)
        )
        most = count * facts.most_edges
        if facts.far_nodes:
            # Counting needs each reference once.
            references = references.groupBy(*NODE_COLUMNS, REFERENCE).agg(
                F.max(IS_JOINED).alias(IS_JOINED)
            )
        elif most <= BROADCAST_ROWS:
            return references, most
        return kept_and_counted(references)

    def _keep(self, level: int, members: DataFrame) -> int:
        """Compute the members of a level and count them."""
        self.members[level], self.counts[level] = kept_and_counted(members)
        return self.counts[level]
