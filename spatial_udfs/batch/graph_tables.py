"""The nodes of a slice of a batch as columns: each node once, and what stages have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.entity import NODE, PROOF, REFERENCE
from spatial_udfs.batch.batch_tables import numbers_among
from spatial_udfs.batch.numbered_conditions import CONDITION
from spatial_udfs.batch.stage_graph import JOINED, LEVEL, PATTERNS, REFERRED
from spatial_udfs.entity_table import Int32s, Int64s

BASE: Final = "base"
REFS: Final = "refs"
# Keys, names and places among the references, as texts.
NAMED: Final = "named"
NODES: Final = "nodes"


@dataclass(frozen=True, slots=True)
class GraphTables:
    """Each node once; ``clash`` tells that two different ones have the same number."""

    nodes: pa.Table  # node, proof, level, referredFrom, referred, joined, patterns, condition
    references: pa.Table  # node of level 0, reference
    named: pa.Table  # node of level 0, NAMED
    clash: bool


class StageKind(NamedTuple):
    """What nodes have in common that are resolved in the same way, with their number."""

    level: int
    condition: str
    patterns: str
    nodes: int


def graph_tables(graphs: pa.Table) -> GraphTables:
    """From the graphs of descriptors (columns BASE, REFS, NODES) to the nodes of all."""
    every = _one_array(graphs, NODES).flatten()
    names = (PROOF, LEVEL, REFERRED, JOINED, PATTERNS, CONDITION)
    first, clash = _each_once(every)
    nodes = pa.table({name: every.field(name).take(first) for name in (NODE, *names)})
    bases = _one_array(graphs, BASE)
    first_base, base_clash = _each_once(bases)
    first_bases = bases.field(NODE).take(first_base)
    references = _exploded(first_bases, _one_array(graphs, REFS).take(first_base), REFERENCE)
    named = _exploded(first_bases, _one_array(graphs, NAMED).take(first_base), NAMED)
    return GraphTables(nodes, references, named, clash or base_clash)


def exploded_lists(lists: pa.ListArray) -> tuple[Int64s, pa.Array]:
    """For each value of the lists the row that it comes from, and all values."""
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(lists)), lengths), lists.flatten()


def node_ids(graph: GraphTables) -> Int64s:
    """Return the hashes of a slice's nodes by number: first the references as written."""
    with_refs, with_names = (
        table.column(NODE).to_numpy() for table in (graph.references, graph.named)
    )
    bases = np.unique(np.concatenate([with_refs, with_names]))
    ids: Int64s = np.concatenate([bases, graph.nodes.column(NODE).to_numpy()])
    return ids


def stage_kinds(nodes: pa.Table) -> list[StageKind]:
    """Return the kinds of stages of some nodes, each with its number of nodes."""
    columns = (nodes.column(name).to_pylist() for name in (LEVEL, CONDITION, PATTERNS))
    counts = Counter(zip(*columns, strict=True))
    return [
        StageKind(level, condition, patterns, count)
        for (level, condition, patterns), count in counts.items()
    ]


def level_sources(graph: GraphTables) -> set[tuple[int, int]]:
    """Return for each level whose members are references there, by level."""
    levels = _levels_of(graph)
    own = graph.nodes.column(LEVEL).to_numpy()
    owners, referred = exploded_lists(graph.nodes.column(REFERRED).combine_chunks())
    sources = levels[numbers_among(node_ids(graph), referred.to_numpy())]
    pairs = np.unique(np.stack([own[owners], sources]), axis=1)
    return {(int(level), int(source)) for level, source in pairs.T}


def _levels_of(graph: GraphTables) -> Int32s:
    """The level of each node by number; 0 for the references as written."""
    own = graph.nodes.column(LEVEL).to_numpy()
    bases = len(node_ids(graph)) - len(own)
    return np.concatenate([np.zeros(bases, np.int32), own])


def _exploded(nodes: pa.Array, lists: pa.ListArray, name: str) -> pa.Table:
    owners, values = exploded_lists(lists)
    return pa.table({NODE: nodes.take(pa.array(owners)), name: values})


def _each_once(numbered: pa.StructArray) -> tuple[pa.Array, bool]:
    """Where each number (NODE) is first, and whether equal numbers have different proofs."""
    numbers, proofs = _values(numbered, NODE), _values(numbered, PROOF)
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    return pa.array(first), bool((proofs[first][place] != proofs).any())


def _values(rows: pa.StructArray, name: str) -> Int64s:
    values: Int64s = rows.field(name).to_numpy(zero_copy_only=False)
    return values


def _one_array(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()
