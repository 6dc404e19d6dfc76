"""One level of nodes in one bucket: references, pairs, members.

Every node of a level is resolved by the same few array operations, whatever its condition,
categories and distances are. ``ask`` goes from the references in a bucket to entities in any
bucket; ``select`` decides, in the bucket of the entities, which of them are members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.topology.relations import SHAPE_COUNT
from spatial_udfs.batch.batch_tables import BatchTables, LevelEdges, shape_pair, widest
from spatial_udfs.bulk.buckets import BucketEntities, PairRows
from spatial_udfs.bulk.placed_members import PlacedRows
from spatial_udfs.bulk.stage_rows import FarTotals, Members, NearPairs, NearRows, RelatedRows
from spatial_udfs.entity_table import Int32s, Int64s
from spatial_udfs.position_sets import is_in, spread_out
from spatial_udfs.topology.pair_kinds import reference_shapes

# The largest number of pairs that are looked up at once.
PAIRS_AT_ONCE: Final = 2_000_000


class BulkStage:
    """A level of a batch in one bucket."""

    def __init__(
        self,
        edges: LevelEdges,
        tables: BatchTables,
        entities: BucketEntities | None,
        members: tuple[Int32s, Int64s],
    ) -> None:
        """Take the members of earlier levels in this bucket, as nodes and entities.

        Without ``entities`` only ``ask_related`` works.
        """
        self._edges = edges
        self._tables = tables
        self._known_entities = entities
        self._references = edges.references(*members)

    @property
    def _entities(self) -> BucketEntities:
        if self._known_entities is None:
            raise ValueError("the entities of the bucket were not given")
        return self._known_entities

    @cached_property
    def _asked(self) -> tuple[Int32s, Int64s]:
        """Return nodes and the references that they ask for, each pair once, by node."""
        nodes, references, joined = self._references
        return each_once(nodes[joined], references[joined], self.asked_references)

    @cached_property
    def asked_references(self) -> Int64s:
        """Return the references that are asked for, each once."""
        _, references, joined = self._references
        return np.unique(references[joined])

    def ask_related(self, pairs: PairRows) -> Iterator[RelatedRows]:
        """Yield pairs of the references that share a point, of selected categories."""
        tables = self._tables
        nodes, references = self._asked
        for part in _portions(references, pairs):
            rows, places = pairs.of(references[part])
            of_rows = nodes[part][rows]
            chosen = tables.selects(of_rows, pairs.category_sets[places])
            of_rows, places = of_rows[chosen], places[chosen]
            holds = tables.related_truth(of_rows, pairs.kinds[places])
            kept = holds | (tables.far_of(of_rows) != 0) if self._edges.with_far else holds
            of_rows, places, holds = of_rows[kept], places[kept], holds[kept]
            shapes = reference_shapes(pairs.kinds[places])
            yield RelatedRows(of_rows, pairs.entities[places], holds, shapes)

    def ask_near(self, near: NearPairs) -> NearRows:
        """Return disjoint pairs within the reach of each node that asks for their reference."""
        nodes, references = self._asked
        reaches = self._tables.reach_of(nodes)
        measuring = ~np.isnan(reaches)
        nodes, references, reaches = nodes[measuring], references[measuring], reaches[measuring]
        order = np.lexsort((near.distances, near.references))
        known, distances = near.references[order], near.distances[order]
        first = np.searchsorted(known, references)
        last = _within(distances, reaches, first, np.searchsorted(known, references, side="right"))
        rows, near_places = spread_out(first, last - first)
        places = order[near_places]
        shapes = self._entities.shapes[self._entities.places_of(references)]
        return NearRows(nodes[rows], near.entities[places], near.distances[places], shapes[rows])

    def reaches_asked(self) -> tuple[Int64s, NDArray[np.float64]]:
        """Return the references from which distances are measured, each with its widest reach."""
        nodes, references = self._asked
        return widest(references, self._tables.reach_of(nodes))

    def references_by_shape(self) -> FarTotals:
        """Return how many references of each shape are here, for nodes whose far pairs count."""
        nodes, references = self._asked
        counted = self._tables.far_of(nodes) != 0
        nodes, references = nodes[counted], references[counted]
        shapes = self._entities.shapes[self._entities.places_of(references)]
        found, places = np.unique(nodes, return_inverse=True)
        cells = np.bincount(places * SHAPE_COUNT + shapes, minlength=len(found) * SHAPE_COUNT)
        return FarTotals(found, cells.reshape(-1, SHAPE_COUNT))

    def select(
        self,
        related: Sequence[RelatedRows],
        near: Sequence[NearRows],
        far: FarTotals,
        placed: Sequence[PlacedRows] = (),
    ) -> Members:
        """Return the members of the level in this bucket.

        ``far`` has the sums of ``references_by_shape`` over all buckets. ``placed`` is what
        places give, which are no references of these.
        """
        rows = [*related, *(self._judged(each) for each in near)]
        keys = [self._keys(each.nodes, each.entities) for each in rows]
        held = [key[each.holds] for key, each in zip(keys, rows, strict=True)]
        held += [self._keys(each.nodes, each.entities) for each in placed]
        if len(far.nodes):
            held += self._far(far, rows, keys)
        found = np.unique(np.concatenate(held)) if held else np.empty(0, np.int64)
        nodes, references, _ = self._references
        members = found[~is_in(found, np.unique(self._keys(nodes, references)))]
        places = np.divmod(members, max(len(self._entities.peids), 1))
        return Members(
            self._edges.level, places[0].astype(np.int32), self._entities.peids[places[1]]
        )

    def _judged(self, rows: NearRows) -> RelatedRows:
        """Return the near rows of selected categories, with the truth of their condition."""
        tables, places = self._tables, self._entities.places_of(rows.entities)
        chosen = np.flatnonzero(tables.selects(rows.nodes, self._entities.category_sets[places]))
        nodes, reference_shapes = rows.nodes[chosen], rows.reference_shapes[chosen]
        pairs = shape_pair(reference_shapes, self._entities.shapes[places[chosen]])
        holds = tables.disjoint_truth(nodes, rows.distances[chosen], pairs)
        return RelatedRows(nodes, rows.entities[chosen], holds, reference_shapes)

    def _far(
        self, far: FarTotals, rows: Sequence[RelatedRows], keys: Sequence[Int64s]
    ) -> Iterator[Int64s]:
        """Yield for each node the entities of its categories for which a far reference holds.

        They come as keys.

        A reference that is near an entity has a row; the rest of the total is far. Only entities of
        the node's categories are considered, and nearly all of these are members.
        """
        tables, entities = self._tables, self._entities
        nodes, totals = far
        count = len(entities.peids)
        every_key = np.concatenate([np.empty(0, np.int64), *keys])
        every_shape = np.concatenate(
            [np.empty(0, np.uint8), *(each.reference_shapes for each in rows)]
        )
        order = np.argsort(every_key)
        every_key, every_shape = every_key[order], every_shape[order]
        starts = nodes.astype(np.int64) * count
        spans = np.searchsorted(every_key, np.stack([starts, starts + count]))
        holding = tables.far_by_shapes(nodes)
        patterns = tables.patterns[nodes]
        last, wanted = -1, np.empty(0, np.int64)
        # Nodes of one pattern follow each other, so their entities are found once and then freed.
        for row in np.argsort(patterns, kind="stable").tolist():
            if patterns[row] != last:
                last = patterns[row]
                wanted = np.flatnonzero(tables.selected[last][entities.category_sets])
            near = slice(*spans[:, row])
            places = every_key[near] - starts[row]
            counted = holding[row][every_shape[near], entities.shapes[places]]
            came = np.searchsorted(wanted, places[counted])
            total = totals[row] @ holding[row]
            near_here = np.bincount(came, minlength=len(wanted))
            yield starts[row] + wanted[total[entities.shapes[wanted]] > near_here]

    def _keys(self, nodes: Int32s, entities: Int64s) -> Int64s:
        """Return rows as single numbers; the entities must be in this bucket."""
        count = len(self._entities.peids)
        keys: Int64s = nodes.astype(np.int64) * count + self._entities.places_of(entities)
        return keys


def each_once(nodes: Int32s, entities: Int64s, every: Int64s) -> tuple[Int32s, Int64s]:
    """Return each pair of a node and an entity once, by node; ``every`` entity ascends."""
    count = max(len(every), 1)
    keys = np.unique(nodes.astype(np.int64) * count + np.searchsorted(every, entities))
    numbers, places = np.divmod(keys, count)
    return numbers.astype(np.int32), every[places]


def _portions(references: Int64s, pairs: PairRows) -> Iterator[slice]:
    """Yield the references in portions of about PAIRS_AT_ONCE pairs."""
    if not len(references):
        return
    counts = np.searchsorted(pairs.references, references, side="right")
    counts -= np.searchsorted(pairs.references, references)
    ends = np.cumsum(counts)
    inner = np.searchsorted(ends, np.arange(PAIRS_AT_ONCE, int(ends[-1]), PAIRS_AT_ONCE))
    bounds = [0, *np.unique(inner).tolist(), len(references)]
    for first, last in pairwise(bounds):
        if first < last:
            yield slice(first, last)


def _within(
    distances: NDArray[np.float64], reaches: NDArray[np.float64], first: Int64s, last: Int64s
) -> Int64s:
    """Return for each span of ascending distances the end of those up to the reach."""
    low, high = first.copy(), last.copy()
    while True:
        open_spans = np.flatnonzero(low < high)
        if not len(open_spans):
            return low
        middle = (low[open_spans] + high[open_spans]) // 2
        inside = distances[middle] <= reaches[open_spans]
        low[open_spans[inside]] = middle[inside] + 1
        high[open_spans[~inside]] = middle[~inside]
