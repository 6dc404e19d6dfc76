"""A batch of subscriptions as data: the nodes to resolve, and what conditions mean as rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses
from pyspark.storagelevel import StorageLevel

from jobs.graph_tables import (
    BASE,
    NODES,
    REFS,
    GraphTables,
    Int64s,
    exploded_lists,
    graph_tables,
)
from jobs.related_tables import RelatedWorld
from schemas.errors import SpapsError
from schemas.membership import DESCRIPTOR, STAGE_NO, SUB_ID
from schemas.related import CATEGORY_SET, NODE, PAIR_KIND, REFERENCE
from spatial_udfs.sedona_categories import CATS, numbered_patterns
from spatial_udfs.sedona_conditions import COND, CONDITION, FAR, REACH, numbered_conditions
from spatial_udfs.sedona_stage_graph import (
    JOINED,
    LEVEL,
    PATTERNS,
    REFERRED,
    REFERRED_FROM,
    graph_column,
)
from spatial_udfs.sedona_stages import IS_JOINED, NODE_COLUMNS, SOURCE

SUB_IDS: Final = "subIds"
# Two of a million nodes share a number once in ten million batches; twice in a row, never.
_ATTEMPTS: Final = 3
_IS_WRONG: Final = "isWrong"
_SUB_ID_COUNT: Final = "subIdCount"
_SHOWN_COUNT: Final = "shownCount"
_WARNING_COUNT: Final = "warningCount"


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """What the driver knows of a level: enough to leave out joins that would find nothing."""

    level: int
    nodes: int
    edges: pa.Table  # source, and the columns of the node that refers to it
    most_edges: int  # the most nodes that refer to the same one
    with_distances: int
    far_nodes: int
    referred_from: int
    distance_sets: tuple[int, ...]  # category sets that distances are measured to


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """How large the batch is."""

    subscriptions: int
    descriptors: int
    shown_nodes: int  # by descriptor
    shown_sub_ids: int
    remarks: int  # wrong descriptors and warnings


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Subscriptions taken apart; nothing here knows the world yet."""

    descriptors: DataFrame  # subIds, error, warnings, base, refs, nodes, shown; persisted
    graph: GraphTables
    facts: BatchFacts


@dataclass(frozen=True, slots=True)
class CompiledBatch:
    """What the levels look up, as small tables of the driver."""

    descriptors: DataFrame
    graph: GraphTables
    kinds: pa.Table  # cond, pairKind
    spans: pa.Table  # cond, above, upTo, holds
    sets: pa.Table  # cats, categorySet
    facts: BatchFacts
    unknown: pa.Table  # the nodes of the graph that are to be resolved
    levels: tuple[LevelFacts, ...]

    def references(self) -> DataFrame:
        """The references as written: rows (node of level 0, reference)."""
        bases = self.descriptors.where(F.col(BASE).isNotNull())
        once = bases.select(F.col(f"{BASE}.{NODE}").alias(NODE), REFS).dropDuplicates([NODE])
        return once.select(NODE, F.explode(REFS).alias(REFERENCE))

    def shown(self) -> DataFrame:
        """Which subscriptions show which node: rows (node, stageNo, subIds)."""
        return self.descriptors.select(SUB_IDS, F.inline("shown")).select(NODE, STAGE_NO, SUB_IDS)

    def used_sets(self) -> list[int]:
        """The category sets that any pattern selects."""
        return _distinct(self.sets, CATEGORY_SET)

    def used_kinds(self) -> list[int]:
        """The pair kinds for which any condition holds."""
        return _distinct(self.kinds, PAIR_KIND)


def read_batch(subscriptions: DataFrame) -> ReadBatch:
    """From subscriptions (subId, descriptor) to nodes; each distinct descriptor is read once."""
    texts = subscriptions.groupBy(DESCRIPTOR).agg(F.collect_list(SUB_ID).alias(SUB_IDS))
    for salt in range(_ATTEMPTS):
        graph = graph_column(F.col(DESCRIPTOR), salt).alias("graph")
        descriptors = texts.select(SUB_IDS, graph).select(SUB_IDS, "graph.*")
        descriptors = descriptors.persist(StorageLevel.MEMORY_AND_DISK)
        read = _read(descriptors)
        if not read.graph.clash:
            return read
        descriptors.unpersist()
    raise SpapsError("the nodes of this batch cannot be told apart; divide the subscriptions")


def _read(descriptors: DataFrame) -> ReadBatch:
    # The arrays of subIds stay where they are: only their lengths come to the driver.
    table = descriptors.select(
        F.size(SUB_IDS).alias(_SUB_ID_COUNT),
        F.size("shown").alias(_SHOWN_COUNT),
        F.size("warnings").alias(_WARNING_COUNT),
        F.col("error").isNotNull().alias(_IS_WRONG),
        BASE,
        REFS,
        NODES,
    ).toArrow()
    sub_ids, shown, warnings, wrong = (
        table.column(name).to_numpy().astype(np.int64)
        for name in (_SUB_ID_COUNT, _SHOWN_COUNT, _WARNING_COUNT, _IS_WRONG)
    )
    facts = BatchFacts(
        subscriptions=int(sub_ids.sum()),
        descriptors=len(table),
        shown_nodes=int(shown.sum()),
        shown_sub_ids=int((sub_ids * shown).sum()),
        remarks=int(wrong.sum() + warnings.sum()),
    )
    good = table.filter(pc.invert(table.column(_IS_WRONG)))
    return ReadBatch(descriptors, graph_tables(good), facts)


def compile_batch(read: ReadBatch, related: RelatedWorld, known: Int64s) -> CompiledBatch:
    """Give conditions and patterns the meaning that they have in this world.

    ``known`` are nodes that need not be resolved.
    """
    bare = read.graph.nodes
    bare = bare.filter(pa.array(~np.isin(bare.column(NODE).to_numpy(), known)))
    conditions = numbered_conditions(
        pc.unique(bare.column(CONDITION)).to_pylist(), related.pair_kinds, related.diameter
    )
    texts = sorted(pc.unique(bare.column(PATTERNS)).to_pylist())
    patterns = numbered_patterns(
        [tuple(json.loads(text)) for text in texts], dict(enumerate(related.vocabulary))
    )
    nodes = _looked_up(bare, CONDITION, conditions.numbers, (COND, REACH, FAR))
    nodes = _looked_up(nodes, PATTERNS, patterns.numbers, (CATS,))
    return CompiledBatch(
        descriptors=read.descriptors,
        graph=read.graph,
        kinds=conditions.kinds,
        spans=conditions.spans,
        sets=patterns.sets,
        facts=read.facts,
        unknown=bare,
        levels=_levels(nodes, patterns.sets),
    )


def _looked_up(nodes: pa.Table, key: str, numbered: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    places = pc.index_in(nodes.column(key), numbered.column(key).combine_chunks())
    for name in columns:
        nodes = nodes.append_column(name, numbered.column(name).take(places))
    return nodes


def _levels(nodes: pa.Table, sets: pa.Table) -> tuple[LevelFacts, ...]:
    numbers = nodes.column(LEVEL).to_numpy()
    return tuple(
        _level_facts(int(level), nodes.filter(pa.array(numbers == level)), sets)
        for level in np.unique(numbers)
    )


def _level_facts(level: int, nodes: pa.Table, sets: pa.Table) -> LevelFacts:
    owners, sources = exploded_lists(nodes.column(REFERRED).combine_chunks())
    edges = nodes.select(list(NODE_COLUMNS)).take(pa.array(owners))
    edges = edges.append_column(SOURCE, sources)
    edges = edges.append_column(IS_JOINED, nodes.column(JOINED).combine_chunks().flatten())
    _, uses = np.unique(sources.to_numpy(), return_counts=True)
    near = nodes.filter(pc.is_valid(nodes.column(REACH)))
    reached = sets.filter(pc.is_in(sets.column(CATS), near.column(CATS).combine_chunks()))
    return LevelFacts(
        level=level,
        nodes=len(nodes),
        edges=edges,
        most_edges=int(uses.max()),
        with_distances=len(near),
        far_nodes=int((nodes.column(FAR).to_numpy() != 0).sum()),
        referred_from=int(nodes.column(REFERRED_FROM).to_numpy().min()),
        distance_sets=tuple(_distinct(reached, CATEGORY_SET)),
    )


def _distinct(table: pa.Table, name: str) -> list[int]:
    return sorted(pc.unique(table.column(name)).to_pylist())
