"""The nodes of a slice of a batch as columns: each node once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas.entity import NODE, PROOF, REFERENCE
from spatial_udfs.bulk.numbered_conditions import CONDITION
from spatial_udfs.bulk.stage_graph import JOINED, LEVEL, PATTERNS, REFERRED

BASE: Final = "base"
REFS: Final = "refs"
# Keys, names and places among the references, as texts.
NAMED: Final = "named"
NODES: Final = "nodes"

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GraphTables:
    """Each node once; ``clash`` tells that two different ones have the same number."""

    nodes: pa.Table  # node, proof, level, referredFrom, referred, joined, patterns, condition
    references: pa.Table  # node of level 0, reference
    named: pa.Table  # node of level 0, NAMED
    clash: bool


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
