"""The members that places give the nodes of a level, in one bucket of the world.

Every bucket gets all places of a slice, so it decides for its own entities without any other. The
pairs of places are found for a batch and forgotten: places do not belong to the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import shapely

from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import Condition
from spatial_udfs.batch.batch_tables import BatchTables, LevelEdges, shape_pair
from spatial_udfs.batch.slice_references import PlaceQuestion, SliceReferences
from spatial_udfs.bulk.buckets import BucketEntities
from spatial_udfs.entity_table import Bools, Geometries, Int32s, Int64s
from spatial_udfs.exact.given_pairs import pairs_hold
from spatial_udfs.exact.place_members import reach_of
from spatial_udfs.place_geometries import projected_places
from spatial_udfs.position_sets import spread_out
from spatial_udfs.topology.condition_verdicts import needs_of
from spatial_udfs.topology.shapes import ShapeCodes, shapes_of, stored_geometries

# The most pairs that are decided in one go, but those of one place.
PAIRS_AT_ONCE: Final = 4_000_000


class PlacedRows(NamedTuple):
    """Entities that a condition ties to a place, by node."""

    nodes: Int32s
    entities: Int64s


class PlacedBucket:
    """The entities of a bucket, by ascending peid, with their geometries."""

    def __init__(self, peids: Int64s, geometries: Geometries, shapes: ShapeCodes) -> None:
        self._peids = peids
        self._geometries = geometries
        self._shapes = shapes
        self._tree = shapely.STRtree(geometries)
        self._boxes = shapely.bounds(geometries)

    def tied(
        self, condition: Condition, places: Geometries, wanted: Bools
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield pairs (place, position of a wanted entity) for which the condition holds."""
        # However crowded the bucket is, so many places have no more pairs.
        at_once = max(1, PAIRS_AT_ONCE // max(len(self._peids), 1))
        for start in range(0, len(places) if wanted.any() else 0, at_once):
            for asked, found in self._tied(condition, places[start : start + at_once], wanted):
                yield start + asked, found

    def _tied(
        self, condition: Condition, places: Geometries, wanted: Bools
    ) -> Iterator[tuple[Int64s, Int64s]]:
        needs = needs_of(condition)
        reach = reach_of(needs, self._boxes, places)
        west, south, east, north = shapely.bounds(places).T
        around = shapely.box(west - reach, south - reach, east + reach, north + reach)
        asked, found = self._tree.query(around)
        chosen = wanted[found]
        asked, found = asked[chosen], found[chosen]
        holds = self._hold(condition, places, asked, found)
        yield asked[holds], found[holds]
        if needs.has_far:
            yield from self._far(needs.far, places, wanted, (asked, found))

    def _hold(
        self, condition: Condition, places: Geometries, asked: Int64s, found: Int64s
    ) -> Bools:
        """Return where the condition holds; a place is the first of its pair."""
        count = len(places)
        involved, positions = np.unique(found, return_inverse=True)
        geometries = np.concatenate([places, self._geometries[involved]])
        peids = np.concatenate([np.arange(-count, 0), self._peids[involved]])
        return pairs_hold(condition, geometries, peids, asked, count + positions)

    def _far(
        self, far: Bools, places: Geometries, wanted: Bools, near: tuple[Int64s, Int64s]
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the pairs of each place with the entities that are far from it."""
        asked, found = near
        shapes = shapes_of(places, np.arange(-len(places), 0))
        for place, shape in enumerate(shapes):
            pairs = shape_pair(np.full(len(wanted), shape), self._shapes)
            held = wanted & far[pairs]
            held[found[asked == place]] = False
            positions = np.flatnonzero(held)
            yield np.full(len(positions), place), positions


def rows_of_nodes(
    tied: tuple[Int64s, Int64s], nodes: Int32s, places: Int64s, peids: Int64s
) -> PlacedRows:
    """Return tied pairs for all nodes that have the place: node i has the place ``places[i]``."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.searchsorted(ordered, tied[0])
    counts = np.searchsorted(ordered, tied[0], side="right") - first
    rows, owners = spread_out(first, counts)
    return PlacedRows(nodes[order[owners]], peids[tied[1][rows]])


def placed_rows(
    references: SliceReferences,
    tables: BatchTables,
    edges: LevelEdges,
    entities: BucketEntities,
    written: pa.Array,
) -> Iterator[PlacedRows]:
    """Yield what the places of a slice find in a bucket; ``written`` are geometries (WKB)."""
    asked = _open_questions(references, tables, edges)
    geometries = stored_geometries(written.to_numpy(zero_copy_only=False), entities.peids)
    placed = PlacedBucket(entities.peids, geometries, entities.shapes)
    for condition, questions in asked.items():
        for rows in _found(placed, entities, tables, condition, questions, references.srid):
            if len(rows.nodes):
                yield rows


# The number of a node, and its question.
Numbered = tuple[int, PlaceQuestion]


def _open_questions(
    references: SliceReferences, tables: BatchTables, edges: LevelEdges
) -> dict[str, list[Numbered]]:
    """Return the questions by condition, less those of nodes that an earlier run has resolved."""
    hashes = np.array([question.node for question in references.questions], np.int64)
    numbers = tables.numbers_of(hashes)
    by_condition: dict[str, list[Numbered]] = {}
    for place in np.flatnonzero(np.isin(numbers, edges.nodes)).tolist():
        question = references.questions[place]
        by_condition.setdefault(question.condition, []).append((int(numbers[place]), question))
    return by_condition


def _found(
    placed: PlacedBucket,
    entities: BucketEntities,
    tables: BatchTables,
    condition: str,
    asked: list[Numbered],
    srid: int,
) -> Iterator[PlacedRows]:
    """Yield the rows of all nodes with one condition, of the categories of each."""
    texts = sorted({place for _, question in asked for place in question.places})
    number_of = {text: number for number, text in enumerate(texts)}
    geometries, _ = projected_places(texts, srid)
    counts = [len(question.places) for _, question in asked]
    nodes = np.repeat(np.array([node for node, _ in asked], np.int32), counts)
    places = np.array(
        [number_of[text] for _, question in asked for text in question.places], np.int64
    )
    patterns = np.unique(tables.patterns[nodes])
    selected: Bools = np.logical_or.reduce(tables.selected[patterns], axis=0)
    wanted = selected[entities.category_sets]
    for tied in placed.tied(parse_condition(condition), geometries, wanted):
        rows = rows_of_nodes(tied, nodes, places, entities.peids)
        sets = entities.category_sets[entities.places_of(rows.entities)]
        chosen = tables.selects(rows.nodes, sets)
        yield PlacedRows(rows.nodes[chosen], rows.entities[chosen])
