"""Which sets of a batch a change of the world can reach, by the rule of ``affected_sets``.

The rule is the one of a rebuild in one process (spatial_udfs/incremental/affected_sets.py), applied
to nodes: each stage is judged by itself. A node may be different when a reference or an old member
was touched, when something that it can select arrived within sight of a reference, or when a node
may be different that it refers to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import shapely

from schemas.entity import NODE, REFERENCE
from schemas.language import references
from schemas.language.condition_parser import parse_condition
from spatial_udfs.batch.batch_tables import numbers_among
from spatial_udfs.batch.compiled_slice import KnownNodes
from spatial_udfs.batch.graph_tables import NAMED, GraphTables, exploded_lists, node_ids
from spatial_udfs.batch.numbered_conditions import CONDITION
from spatial_udfs.batch.stage_graph import LEVEL, PATTERNS, REFERRED
from spatial_udfs.bulk.buckets import BucketEntities, bucket_of
from spatial_udfs.entity_table import Bools, Int64s
from spatial_udfs.incremental.affected_sets import (
    ANYWHERE,
    EVERYTHING,
    MOST_PATTERNS,
    seeing,
    sight_of,
)
from spatial_udfs.incremental.touched_entities import Touched
from spatial_udfs.place_geometries import projected_places
from spatial_udfs.topology.shapes import stored_geometries

_PLACE: Final = f"{references.PLACE}:"

# How far a node sees, and its patterns as text.
NodeSight = tuple[float, str]


class NodeHits(NamedTuple):
    """Nodes of a slice, by number, that may be different by what a cell knows."""

    numbers: Int64s


class OldBuckets(Protocol):
    """The entities of the version before, by bucket."""

    @property
    def buckets(self) -> int:
        """Return how many there are."""

    def entities(self, bucket: int) -> BucketEntities:
        """Return those of a bucket."""

    def geometries(self, bucket: int, asked: Int64s) -> pa.Array:
        """Return the geometries (WKB) of some of them; the peids ascend."""


class OldSets(Protocol):
    """The sets of the version before."""

    def rows(self, bucket: int, known: KnownNodes) -> tuple[Int64s, Int64s]:
        """Return the members of known sets in a bucket: nodes by their hashes, and entities."""


class SliceGraph:
    """The nodes of a slice by number, as ``node_ids`` numbers them, and what each of them sees."""

    def __init__(self, graph: GraphTables) -> None:
        self.graph = graph
        self.ids = node_ids(graph)
        self.bases = len(self.ids) - len(graph.nodes)
        owners, referred = exploded_lists(graph.nodes.column(REFERRED).combine_chunks())
        # Edge i: members of ``sources[i]`` are references of ``owners[i]``.
        self.owners: Int64s = owners + self.bases
        self.sources = numbers_among(self.ids, referred.to_numpy())

    def sights(self) -> dict[NodeSight, Int64s]:
        """Return the nodes that see equally far and select the same."""
        columns = (self.graph.nodes.column(name).to_pylist() for name in (CONDITION, PATTERNS))
        conditions, patterns = columns
        everything = json.dumps(sorted(EVERYTHING))
        is_much = len(set(patterns)) > MOST_PATTERNS
        far = {text: sight_of(parse_condition(text)) for text in set(conditions)}
        found: dict[NodeSight, list[int]] = {}
        for number, (condition, text) in enumerate(zip(conditions, patterns, strict=True)):
            sight = (far[condition], everything if is_much else text)
            found.setdefault(sight, []).append(self.bases + number)
        return {sight: np.array(numbers, np.int64) for sight, numbers in found.items()}

    def referring(self, sources: Bools, among: Int64s) -> Int64s:
        """Return those of some nodes that refer to one of the ``sources``, which is a mask."""
        wanted = np.zeros(len(self.ids), np.bool_)
        wanted[among] = True
        return np.unique(self.owners[sources[self.sources] & wanted[self.owners]])

    def spread(self, affected: Bools) -> None:
        """Mark what refers to a marked node, level after level."""
        levels = np.zeros(len(self.ids), np.int64)
        levels[self.bases :] = self.graph.nodes.column(LEVEL).to_numpy()
        of_edges = levels[self.owners]
        for level in np.unique(of_edges).tolist():
            edges = of_edges == level
            affected[self.owners[edges & affected[self.sources]]] = True


@dataclass(frozen=True, slots=True)
class AffectedTask:
    """What tasks do to find the nodes that may be different; ``base`` is the version before."""

    read: Callable[[str], Any]  # a file of the run
    touched: Callable[[], Touched]
    arrived: Callable[[str], shapely.STRtree]  # the boxes of what arrived, by patterns as text
    base: OldBuckets
    sets: OldSets
    slices: dict[int, tuple[str, str]]  # the files of graph and known nodes
    srid: int

    def ask(self, cell: tuple[int, int]) -> Iterator[tuple[int, NodeHits]]:
        """Send the nodes of a slice that a bucket knows to be reached: references and members."""
        bucket, number = cell
        graph, known = (self.read(path) for path in self.slices[number])
        touched, nodes = self.touched(), SliceGraph(graph)
        hashes, entities = self.sets.rows(bucket, known)
        written = graph.references.column(REFERENCE).to_numpy()
        here = bucket_of(written, self.base.buckets) == bucket
        hashes = np.concatenate([graph.references.column(NODE).to_numpy()[here], hashes])
        entities = np.concatenate([written[here], entities])
        rows = numbers_among(nodes.ids, hashes).astype(np.int64)
        is_touched = np.isin(entities, touched.peids)
        yield number, NodeHits(np.unique(rows[is_touched]))
        # A reference that neither version has gives nothing in both of them.
        there = self.base.entities(bucket).has(entities) & ~is_touched
        yield number, NodeHits(self._with_arrivals(bucket, nodes, rows[there], entities[there]))

    def _with_arrivals(
        self, bucket: int, nodes: SliceGraph, rows: Int64s, entities: Int64s
    ) -> Int64s:
        """Return nodes that have something arrived within sight of one of these references."""
        found = [np.empty(0, np.int64)]
        asked = np.unique(entities)
        written = self.base.geometries(bucket, asked).to_numpy(zero_copy_only=False)
        boxes = shapely.bounds(stored_geometries(written, asked)).reshape(-1, 4)
        places = np.searchsorted(asked, entities)
        for (metres, text), seen_by in nodes.sights().items():
            tree = self.arrived(text)
            if metres == ANYWHERE or not len(tree):
                continue
            is_source = np.zeros(len(nodes.ids), np.bool_)
            is_source[nodes.sources[np.isin(nodes.owners, seen_by)]] = True
            of_sources = is_source[rows]
            wanted = np.unique(places[of_sources])
            near = np.zeros(len(asked), np.bool_)
            near[wanted] = seeing(tree, metres, boxes[wanted])
            sources = np.zeros(len(nodes.ids), np.bool_)
            sources[rows[of_sources & near[places]]] = True
            found.append(nodes.referring(sources, seen_by))
        return np.unique(np.concatenate(found))

    def unaffected(self, number: int, hits: Sequence[NodeHits]) -> Bools:
        """Return for each node of the slice that is not a base whether it is as it was."""
        graph, known = (self.read(path) for path in self.slices[number])
        nodes = SliceGraph(graph)
        affected = np.zeros(len(nodes.ids), np.bool_)
        affected[nodes.bases :] = ~np.isin(nodes.ids[nodes.bases :], known.nodes)
        for each in hits:
            affected[each.numbers] = True
        named = list(zip(graph.named.column(NODE).to_pylist(),
                         graph.named.column(NAMED).to_pylist(), strict=True))  # fmt: skip
        # Another entity may have the key or the name now.
        by_name = {base for base, text in named if not text.startswith(_PLACE)}
        affected[numbers_among(nodes.ids, np.array(sorted(by_name), np.int64))] = True
        placed = [(base, text.removeprefix(_PLACE)) for base, text in named if base not in by_name]
        for (metres, text), seen_by in nodes.sights().items():
            tree = self.arrived(text)
            if metres == ANYWHERE:
                affected[seen_by] |= bool(len(tree))
            elif placed and len(tree):
                sources = self._seeing_places(nodes, placed, tree, metres)
                affected[nodes.referring(sources, seen_by)] = True
        nodes.spread(affected)
        return ~affected[nodes.bases :]

    def _seeing_places(
        self,
        nodes: SliceGraph,
        placed: Sequence[tuple[int, str]],
        tree: shapely.STRtree,
        metres: float,
    ) -> Bools:
        """Return which nodes have a place that something arrived near."""
        texts = sorted({text for _, text in placed})
        geometries, lacking = projected_places(texts, self.srid)
        there = [text for text in texts if text not in set(lacking)]
        seen = seeing(tree, metres, shapely.bounds(geometries).reshape(-1, 4))
        near = {text for text, is_near in zip(there, seen.tolist(), strict=True) if is_near}
        bases = np.array([base for base, text in placed if text in near], np.int64)
        sources = np.zeros(len(nodes.ids), np.bool_)
        sources[numbers_among(nodes.ids, bases)] = True
        return sources
