"""A batch with the meaning that it has in a world: what the tasks of a level look up.

Conditions and patterns get their meaning once, on the driver. Nodes get it in a task for each
slice. A task of a level has one slice at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from schemas.entity import NODE
from schemas.errors import SpapsError
from spatial_udfs.batch.batch_tables import BatchTables, LevelEdges
from spatial_udfs.batch.graph_tables import GraphTables, StageKind, exploded_lists, node_ids
from spatial_udfs.batch.numbered_conditions import (
    CONDITION,
    NumberedConditions,
    numbered_conditions,
)
from spatial_udfs.batch.shown_rows import ShownNodes
from spatial_udfs.batch.stage_graph import JOINED, LEVEL, PATTERNS, REFERRED
from spatial_udfs.bulk.category_sets import NumberedPatterns, Vocabulary, numbered_patterns
from spatial_udfs.entity_table import Int32s, Int64s


class Meaning(NamedTuple):
    """The distinct conditions and patterns of a batch, by number."""

    conditions: NumberedConditions
    patterns: NumberedPatterns
    pair_kinds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """One level: how many nodes it resolves, out of which levels, and what it needs for that."""

    level: int
    nodes: int
    sources: frozenset[int]
    with_distances: bool
    near_names: frozenset[str]  # the categories that distances are measured to
    with_far: bool  # whether most entities can be members of one node


class KnownNodes(NamedTuple):
    """Nodes that an earlier run has resolved, by ascending hash, and whose rows count."""

    nodes: Int64s
    runs: Int64s


class CompiledSlice(NamedTuple):
    """A slice of the graph by number: first the references as written, then all other nodes."""

    tables: BatchTables
    levels: dict[int, LevelEdges]
    uses: Int64s  # by node: how many subscriptions show it, by stage
    known: KnownNodes


NOTHING_KNOWN = KnownNodes(np.empty(0, np.int64), np.empty(0, np.int64))


def meaning_of(
    kinds: Iterable[StageKind],
    vocabulary: Vocabulary,
    pair_kinds: tuple[int, ...],
    diameter: float,
    most: int,
) -> Meaning:
    """Give conditions and patterns their meaning; an error when there are more than ``most``.

    The world has these category sets, these kinds of pairs, and this diameter.
    """
    conditions = {kind.condition for kind in kinds}
    patterns = {kind.patterns for kind in kinds}
    for what, found in (("conditions", conditions), ("sets of category patterns", patterns)):
        if len(found) > most:
            raise SpapsError(
                f"the batch has {len(found):,} different {what}, and at most {most:,} are allowed "
                "(bulk.most_conditions): divide the subscriptions, or raise the limit"
            )
    return Meaning(
        numbered_conditions(conditions, pair_kinds, diameter),
        numbered_patterns(patterns, vocabulary),
        pair_kinds,
    )


def level_plans(
    kinds: Sequence[StageKind], sources: Iterable[tuple[int, int]], meaning: Meaning
) -> list[LevelPlan]:
    """Return the levels that are to be resolved, in their order."""
    reaches, far = meaning.conditions.reaches, meaning.conditions.far
    numbers = meaning.conditions.numbers
    referred: dict[int, set[int]] = {}
    for level, source in sources:
        referred.setdefault(level, set()).add(source)
    plans = []
    for level in sorted({kind.level for kind in kinds}):
        own = [kind for kind in kinds if kind.level == level]
        measuring = {
            kind.patterns for kind in own if not np.isnan(reaches[numbers[kind.condition]])
        }
        names = (meaning.patterns.names[meaning.patterns.numbers[text]] for text in measuring)
        plans.append(
            LevelPlan(
                level,
                sum(kind.nodes for kind in own),
                frozenset(referred.get(level, ())),
                bool(measuring),
                frozenset().union(*names),
                any(far[numbers[kind.condition]] for kind in own),
            )
        )
    return plans


def unknown_nodes(graph: GraphTables, known: KnownNodes) -> pa.Table:
    """Return the nodes that this run has to resolve."""
    return graph.nodes.filter(pa.array(~np.isin(graph.nodes.column(NODE).to_numpy(), known.nodes)))


def compile_slice(
    graph: GraphTables, shown: ShownNodes, known: KnownNodes, meaning: Meaning
) -> CompiledSlice:
    """Number the nodes of a slice, and find the edges of each level."""
    ids = node_ids(graph)
    unknown = unknown_nodes(graph, known)
    bases = len(ids) - len(graph.nodes)
    rows = bases + np.flatnonzero(~np.isin(graph.nodes.column(NODE).to_numpy(), known.nodes))
    conditions, patterns = meaning.conditions, meaning.patterns
    tables = BatchTables(
        node_ids=ids,
        conditions=_numbers(len(ids), rows, unknown, CONDITION, conditions.numbers),
        patterns=_numbers(len(ids), rows, unknown, PATTERNS, patterns.numbers),
        pair_kinds=np.array(meaning.pair_kinds, np.int32),
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
    edges = {
        int(level): _edges(int(level), unknown.filter(pa.array(levels == level)), tables)
        for level in np.unique(levels)
    }
    return CompiledSlice(tables, edges, shown.uses(len(ids)), known)


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


def _edges(level: int, nodes: pa.Table, tables: BatchTables) -> LevelEdges:
    own = tables.numbers_of(nodes.column(NODE).to_numpy())
    owners, referred = exploded_lists(nodes.column(REFERRED).combine_chunks())
    sources = tables.numbers_of(referred.to_numpy())
    joined = nodes.column(JOINED).combine_chunks().flatten().to_numpy(zero_copy_only=False)
    order = np.argsort(sources, kind="stable")
    return LevelEdges(
        level=level,
        sources=sources[order],
        nodes=own[owners][order],
        joined=joined[order],
        with_distances=not bool(np.isnan(tables.reach_of(own)).all()),
        with_far=bool((tables.far_of(own) != 0).any()),
    )
