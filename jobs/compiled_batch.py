"""A batch of subscriptions as frames: the nodes to resolve, and what conditions mean as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.kept_frames import kept
from jobs.related_tables import RelatedWorld
from schemas.entity import CATEGORIES
from schemas.errors import SpapsError
from schemas.membership import DESCRIPTOR, STAGE_NO, SUB_ID
from schemas.related import REFERENCE
from spatial_udfs.sedona_categories import CATS, numbered_patterns
from spatial_udfs.sedona_conditions import COND, CONDITION, FAR, REACH, numbered_conditions
from spatial_udfs.sedona_stage_graph import (
    JOINED,
    LEVEL,
    NODE,
    PROOF,
    REFERRED,
    REFERRED_FROM,
    graph_column,
)

SUB_IDS: Final = "subIds"
_CLASH: Final = "clash"
# Two of a million nodes share a number once in ten million batches; twice in a row, never.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """What the driver knows of a level: enough to leave out joins that would find nothing."""

    level: int
    nodes: int
    edges: int
    with_distances: int
    far_nodes: int
    referred_from: int


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """How large the batch is."""

    subscriptions: int
    descriptors: int
    references: int
    shown_sub_ids: int


@dataclass(frozen=True, slots=True)
class CompiledBatch:
    """Frames that are computed once, and what the driver knows of them."""

    descriptors: DataFrame  # subIds, error, warnings, base, refs, nodes, shown
    nodes: DataFrame  # node, level, referred, joined, cond, cats, reach, far
    kinds: DataFrame  # cond, pairKind
    spans: DataFrame  # cond, above, upTo, holds
    sets: DataFrame  # cats, categorySet
    facts: BatchFacts
    levels: tuple[LevelFacts, ...]

    def references(self) -> DataFrame:
        """The references as written: rows (node of level 0, reference)."""
        bases = self.descriptors.where(F.col("base").isNotNull())
        once = bases.select(F.col(f"base.{NODE}").alias(NODE), "refs").dropDuplicates([NODE])
        return once.select(NODE, F.explode("refs").alias(REFERENCE))

    def shown(self) -> DataFrame:
        """Which subscriptions show which node: rows (node, stageNo, subIds)."""
        return self.descriptors.select(SUB_IDS, F.inline("shown")).select(NODE, STAGE_NO, SUB_IDS)


def compile_batch(
    spark: SparkSession, subscriptions: DataFrame, related: RelatedWorld
) -> CompiledBatch:
    """From subscriptions (subId, descriptor) to nodes; each distinct descriptor is read once."""
    texts = subscriptions.groupBy(DESCRIPTOR).agg(F.collect_list(SUB_ID).alias(SUB_IDS))
    for salt in range(_ATTEMPTS):
        graph = graph_column(F.col(DESCRIPTOR), salt).alias("graph")
        descriptors = kept(texts.select(SUB_IDS, graph).select(SUB_IDS, "graph.*"))
        batch = _with_meaning(spark, descriptors, related)
        if batch is not None:
            return batch
    raise SpapsError("the nodes of this batch cannot be told apart; divide the subscriptions")


def _with_meaning(
    spark: SparkSession, descriptors: DataFrame, related: RelatedWorld
) -> CompiledBatch | None:
    """The batch, or None when two different nodes have the same number."""
    facts, clash = _batch_facts(descriptors)
    bare = _distinct_nodes(descriptors)
    asked = descriptors.select(F.inline("nodes")).select(CONDITION, CATEGORIES).distinct().collect()
    conditions = numbered_conditions(
        (row[CONDITION] for row in asked), related.pair_kinds, related.diameter
    )
    patterns = numbered_patterns(
        (tuple(row[CATEGORIES]) for row in asked), related.names_of_category_sets()
    )
    # Small tables of the driver are part of a plan: no job is needed to send them around.
    numbers = F.broadcast(spark.createDataFrame(conditions.numbers))
    nodes = kept(
        bare.join(numbers, on=CONDITION, how="inner")
        .join(F.broadcast(spark.createDataFrame(patterns.numbers)), on=CATEGORIES, how="inner")
        .select(NODE, _CLASH, LEVEL, REFERRED, REFERRED_FROM, JOINED, COND, CATS, REACH, FAR)
    )
    levels, node_clash = _level_facts(nodes)
    batch = CompiledBatch(
        descriptors=descriptors,
        nodes=nodes,
        kinds=spark.createDataFrame(conditions.kinds),
        spans=spark.createDataFrame(conditions.spans),
        sets=spark.createDataFrame(patterns.sets),
        facts=facts,
        levels=levels,
    )
    return None if clash or node_clash else batch


def _distinct_nodes(descriptors: DataFrame) -> DataFrame:
    every = descriptors.select(F.inline("nodes"))
    others = [name for name in every.columns if name not in (NODE, PROOF)]
    return every.groupBy(NODE).agg(
        (F.min(PROOF) != F.max(PROOF)).alias(_CLASH),
        *[F.first(name).alias(name) for name in others],
    )


def _batch_facts(descriptors: DataFrame) -> tuple[BatchFacts, bool]:
    """How large the batch is, and whether two sets of references have the same number."""
    row = descriptors.agg(
        F.coalesce(F.sum(F.size(SUB_IDS)), F.lit(0)).alias("subscriptions"),
        F.count("*").alias("descriptors"),
        F.coalesce(F.sum(F.size("refs")), F.lit(0)).alias("references"),
        F.coalesce(F.sum(F.size(SUB_IDS) * F.size("shown")), F.lit(0)).alias("shown_sub_ids"),
        (F.count_distinct(f"base.{NODE}") != F.count_distinct("base")).alias(_CLASH),
    ).collect()[0]
    facts = BatchFacts(
        row["subscriptions"], row["descriptors"], row["references"], row["shown_sub_ids"]
    )
    return facts, row[_CLASH]


def _level_facts(nodes: DataFrame) -> tuple[tuple[LevelFacts, ...], bool]:
    rows = (
        nodes.groupBy(LEVEL)
        .agg(
            F.count("*").alias("nodes"),
            F.sum(F.size(REFERRED)).alias("edges"),
            F.count(REACH).alias("with_distances"),
            F.count_if(F.col(FAR) != 0).alias("far_nodes"),
            F.min(REFERRED_FROM).alias("referred_from"),
            F.max(_CLASH).alias(_CLASH),
        )
        .orderBy(LEVEL)
        .collect()
    )
    levels = tuple(
        LevelFacts(
            row[LEVEL],
            row["nodes"],
            row["edges"],
            row["with_distances"],
            row["far_nodes"],
            row["referred_from"],
        )
        for row in rows
    )
    return levels, any(row[_CLASH] for row in rows)
