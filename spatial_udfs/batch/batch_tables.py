"""A batch of neighborhoods, as arrays for the look-ups of all tasks.

Nodes, conditions, patterns and kinds are numbered from 0 within the batch, so a look-up is an
index. The arrays grow with the batch and with the vocabulary of the world, not with its entities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.errors import SpapsError
from schemas.topology.relations import SHAPE_COUNT, SHAPE_PAIRS
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
        """Return the numbers in this batch of the nodes with these hashes."""
        return numbers_among(self.node_ids, ids)

    def related_truth(self, nodes: Int32s, kinds: Int32s) -> Bools:
        """Return whether the condition of each node holds for a pair of this kind."""
        places = np.searchsorted(self.pair_kinds, kinds)
        found: Bools = self.truths[self.truth_of[self.conditions[nodes]], places]
        return found

    def disjoint_truth(self, nodes: Int32s, distances: Floats, shape_pairs: Int32s) -> Bools:
        """Return whether the condition of each node holds for a disjoint pair at this distance.

        The distances are within the reaches of the nodes.
        """
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
        """Return whether the patterns of each node select entities of this category set."""
        found: Bools = self.selected[self.patterns[nodes], category_sets]
        return found

    def far_of(self, nodes: Int32s) -> Int32s:
        """Return the truth of each node's condition beyond its reach, a bit for each shape pair."""
        found: Int32s = self.far[self.conditions[nodes]]
        return found

    def far_by_shapes(self, nodes: Int32s) -> Bools:
        """Return that truth by node, shape of the reference and shape of the entity."""
        bits = has_bit(self.far_of(nodes)[:, None], np.arange(len(SHAPE_PAIRS)))
        return bits.reshape(-1, SHAPE_COUNT, SHAPE_COUNT)

    def reach_of(self, nodes: Int32s) -> Floats:
        """Return the reach of each node's condition."""
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
        """Return the references of this level among members: node, reference and ``joined``."""
        first = np.searchsorted(self.sources, nodes)
        counts = np.searchsorted(self.sources, nodes, side="right") - first
        rows, edges = spread_out(first, counts)
        return self.nodes[edges], entities[rows], self.joined[edges]


def numbers_among(node_ids: Int64s, wanted: Int64s) -> Int32s:
    """Return the position of each hash among those of a slice; SpapsError if one is missing."""
    order = np.argsort(node_ids)
    places = np.searchsorted(node_ids, wanted, sorter=order)
    places = places[places < len(node_ids)]
    numbers: Int32s = order[places].astype(np.int32)
    if not np.array_equal(node_ids[numbers], wanted):
        raise SpapsError("a set of the batch is not in its graph: start the run again")
    return numbers


def widest(references: Int64s, reaches: Floats) -> tuple[Int64s, Floats]:
    """Return each reference that has a reach once, with the widest."""
    measuring = ~np.isnan(reaches)
    found, places = np.unique(references[measuring], return_inverse=True)
    most = np.zeros(len(found))
    np.maximum.at(most, places, reaches[measuring])
    return found, most


def has_bit(bits: Int32s, places: NDArray[np.integer]) -> Bools:
    """Return whether the bit at each position is set."""
    found: Bools = (bits >> places.astype(np.int32) & 1).astype(np.bool_)
    return found


def shape_pair(references: ShapeCodes, entities: ShapeCodes) -> Int32s:
    """Return the position of two shapes in SHAPE_PAIRS."""
    return references.astype(np.int32) * SHAPE_COUNT + entities
