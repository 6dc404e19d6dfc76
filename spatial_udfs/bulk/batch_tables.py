"""A batch of neighborhoods as the arrays that every task looks things up in.

Nodes, conditions, patterns and kinds are numbered from 0 within the batch, so a look-up is an
index. All of it belongs to the batch and to the vocabulary of the world, never to its size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.errors import SpapsError
from schemas.topology.far_pairs import SHAPE_PAIRS
from schemas.topology.relations import SHAPE_COUNT
from spatial_udfs.entity_table import Bools, Floats, Int32s, Int64s
from spatial_udfs.position_sets import spread_out
from spatial_udfs.topology.shapes import ShapeCodes


@dataclass(frozen=True, slots=True, eq=False)
class BatchTables:
    """What nodes, conditions and patterns mean in this world."""

    node_ids: Int64s  # by node: the hash that is the same in every batch
    conditions: Int32s  # by node
    patterns: Int32s  # by node
    pair_kinds: Int32s  # ascending; the kinds that occur in the world
    truth_of: Int32s  # by condition: its row of ``truths``
    truths: Bools  # row, place in pair_kinds: whether it holds for pairs that share a point
    reaches: Floats  # by condition; nan where no disjoint pair differs from a far one
    far: Int32s  # by condition: a bit for each of SHAPE_PAIRS, the truth beyond the reach
    span_starts: Int64s  # by condition, one longer: its spans of distance
    above: Floats  # by span: more than this,
    up_to: Floats  # at most this,
    holds: Int32s  # a bit for each of SHAPE_PAIRS
    selected: Bools  # pattern, category set: whether it selects entities of the set

    def numbers_of(self, ids: Int64s) -> Int32s:
        """The numbers of nodes in this batch, by their hashes."""
        return numbers_among(self.node_ids, ids)

    def related_truth(self, nodes: Int32s, kinds: Int32s) -> Bools:
        """Whether the condition of each node holds for a pair of this kind."""
        places = np.searchsorted(self.pair_kinds, kinds)
        found: Bools = self.truths[self.truth_of[self.conditions[nodes]], places]
        return found

    def disjoint_truth(self, nodes: Int32s, distances: Floats, shape_pairs: Int32s) -> Bools:
        """The same for disjoint pairs at these distances, within the reach."""
        conditions = self.conditions[nodes]
        starts, ends = self.span_starts[conditions], self.span_starts[conditions + 1]
        truth = np.zeros(len(nodes), np.bool_)
        # Conditions have one span or two: a pass for each, over those that have so many.
        for place in range(int((ends - starts).max(initial=0))):
            rows = np.flatnonzero(starts + place < ends)
            spans = starts[rows] + place
            within = (distances[rows] > self.above[spans]) & (distances[rows] <= self.up_to[spans])
            truth[rows] |= within & has_bit(self.holds[spans], shape_pairs[rows])
        return truth

    def selects(self, nodes: Int32s, category_sets: Int32s) -> Bools:
        """Whether the patterns of each node select entities of this category set."""
        found: Bools = self.selected[self.patterns[nodes], category_sets]
        return found

    def far_of(self, nodes: Int32s) -> Int32s:
        """The truth of each node's condition beyond its reach."""
        found: Int32s = self.far[self.conditions[nodes]]
        return found

    def far_by_shapes(self, nodes: Int32s) -> Bools:
        """The same by node, shape of the reference and shape of the entity."""
        bits = has_bit(self.far_of(nodes)[:, None], np.arange(len(SHAPE_PAIRS)))
        return bits.reshape(-1, SHAPE_COUNT, SHAPE_COUNT)

    def reach_of(self, nodes: Int32s) -> Floats:
        """The reach of each node's condition."""
        found: Floats = self.reaches[self.conditions[nodes]]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class LevelEdges:
    """Which nodes a level resolves, and whose members are their references.

    ``sources`` ascend; edge i says that members of ``sources[i]`` are references of
    ``nodes[i]``, and whether they can give it anything new (``joined``).
    """

    level: int
    sources: Int32s
    nodes: Int32s
    joined: Bools
    with_distances: bool
    with_far: bool

    def references(self, nodes: Int32s, entities: Int64s) -> tuple[Int32s, Int64s, Bools]:
        """References of this level out of members: (node, reference, joined) for each edge."""
        first = np.searchsorted(self.sources, nodes)
        counts = np.searchsorted(self.sources, nodes, side="right") - first
        rows, edges = spread_out(first, counts)
        return self.nodes[edges], entities[rows], self.joined[edges]


def numbers_among(node_ids: Int64s, wanted: Int64s) -> Int32s:
    """Return the place of each hash among those of a slice; an error when one is not there."""
    order = np.argsort(node_ids)
    places = np.searchsorted(node_ids, wanted, sorter=order)
    places = places[places < len(node_ids)]
    numbers: Int32s = order[places].astype(np.int32)
    if not np.array_equal(node_ids[numbers], wanted):
        raise SpapsError("a set of the batch is not in its graph: start the run again")
    return numbers


def widest(references: Int64s, reaches: Floats) -> tuple[Int64s, Floats]:
    """Each reference once, with its widest reach; those without one are left out."""
    measuring = ~np.isnan(reaches)
    found, places = np.unique(references[measuring], return_inverse=True)
    most = np.zeros(len(found))
    np.maximum.at(most, places, reaches[measuring])
    return found, most


def has_bit(bits: Int32s, places: NDArray[np.integer]) -> Bools:
    """Whether the bit at each place is set."""
    found: Bools = (bits >> places.astype(np.int32) & 1).astype(np.bool_)
    return found


def shape_pair(references: ShapeCodes, entities: ShapeCodes) -> Int32s:
    """The place of two shapes in SHAPE_PAIRS."""
    return references.astype(np.int32) * SHAPE_COUNT + entities
