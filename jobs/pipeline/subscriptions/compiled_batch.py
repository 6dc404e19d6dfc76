"""A batch of subscriptions with the meaning that it has in a world: what tasks look up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.pipeline.pairs.related_tables import RelatedWorld
from jobs.pipeline.subscriptions.graph_tables import GraphTables, Int64s, exploded_lists
from schemas.entity import NODE, REFERENCE
from spatial_udfs.bulk.batch_tables import BatchTables, Int32s, LevelEdges
from spatial_udfs.bulk.numbered_conditions import CONDITION, numbered_conditions
from spatial_udfs.bulk.numbered_patterns import numbered_patterns
from spatial_udfs.bulk.stage_graph import JOINED, LEVEL, PATTERNS, REFERRED


@dataclass(frozen=True, slots=True, eq=False)
class LevelPlan:
    """One level: how many nodes it resolves, from which members, measured to whom."""

    level: int
    nodes: int
    edges: LevelEdges
    near_names: frozenset[str]  # the categories that distances are measured to
    from_references_alone: bool  # whether nobody refers to members of another level


@dataclass(frozen=True, slots=True, eq=False)
class CompiledBatch:
    """The nodes of a batch by number: first the references as written, then all others."""

    tables: BatchTables
    unknown: pa.Table  # the nodes of the graph that are to be resolved
    levels: tuple[LevelPlan, ...]
    reference_nodes: Int32s  # by reference as written: the node it belongs to
    references: Int64s


def compile_batch(graph: GraphTables, related: RelatedWorld, known: Int64s) -> CompiledBatch:
    """Give conditions and patterns their meaning; ``known`` are nodes that are not resolved."""
    bases = np.unique(graph.references.column(NODE).to_numpy())
    ids = np.concatenate([bases, graph.nodes.column(NODE).to_numpy()])
    is_known = np.isin(graph.nodes.column(NODE).to_numpy(), known)
    unknown = graph.nodes.filter(pa.array(~is_known))
    conditions = numbered_conditions(
        pc.unique(unknown.column(CONDITION)).to_pylist(), related.pair_kinds, related.diameter
    )
    patterns = numbered_patterns(
        pc.unique(unknown.column(PATTERNS)).to_pylist(), related.vocabulary
    )
    rows = len(bases) + np.flatnonzero(~is_known)
    tables = BatchTables(
        node_ids=ids,
        conditions=_numbers(len(ids), rows, unknown, CONDITION, conditions.numbers),
        patterns=_numbers(len(ids), rows, unknown, PATTERNS, patterns.numbers),
        pair_kinds=np.array(related.pair_kinds, np.int32),
        truth_of=conditions.truth_of,
        truths=conditions.truths,
        reaches=conditions.reaches,
        far=conditions.far,
        span_starts=conditions.span_starts,
        above=conditions.above,
        up_to=conditions.up_to,
        holds=conditions.holds,
        selected=patterns.selected,
    )
    levels = unknown.column(LEVEL).to_numpy()
    return CompiledBatch(
        tables=tables,
        unknown=unknown,
        levels=tuple(
            _level(
                int(level),
                unknown.filter(pa.array(levels == level)),
                tables,
                patterns.names,
                len(bases),
            )
            for level in np.unique(levels)
        ),
        reference_nodes=tables.numbers_of(graph.references.column(NODE).to_numpy()),
        references=graph.references.column(REFERENCE).to_numpy(),
    )


def _numbers(
    count: int, rows: Int64s, nodes: pa.Table, name: str, numbers: dict[str, int]
) -> Int32s:
    """By node, the number of its text; nodes that are not resolved have none."""
    texts = nodes.column(name).combine_chunks().dictionary_encode()
    found = np.zeros(count, np.int32)
    by_code = np.array([numbers[text] for text in texts.dictionary.to_pylist()], np.int32)
    if len(by_code):
        found[rows] = by_code[texts.indices.to_numpy()]
    return found


def _level(
    level: int,
    nodes: pa.Table,
    tables: BatchTables,
    names: tuple[frozenset[str], ...],
    bases: int,
) -> LevelPlan:
    own = tables.numbers_of(nodes.column(NODE).to_numpy())
    owners, referred = exploded_lists(nodes.column(REFERRED).combine_chunks())
    sources = tables.numbers_of(referred.to_numpy())
    joined = nodes.column(JOINED).combine_chunks().flatten().to_numpy(zero_copy_only=False)
    order = np.argsort(sources, kind="stable")
    measuring = own[~np.isnan(tables.reach_of(own))]
    return LevelPlan(
        level=level,
        nodes=len(own),
        edges=LevelEdges(
            level=level,
            sources=sources[order],
            nodes=own[owners][order],
            joined=joined[order],
            with_distances=bool(len(measuring)),
            with_far=bool((tables.far_of(own) != 0).any()),
        ),
        near_names=frozenset().union(*(names[place] for place in tables.patterns[measuring])),
        from_references_alone=bool((sources < bases).all()),
    )
