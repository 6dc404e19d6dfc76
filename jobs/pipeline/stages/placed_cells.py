"""What places find in a cell: every bucket asks for all places of its slice, in level 1 alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jobs.pipeline.exchange import Sent
from jobs.pipeline.stages.batch_state import CellReader
from jobs.pipeline.subscriptions.named_references import PlaceQuestion, SliceReferences
from schemas.language.condition_parser import parse_condition
from spatial_udfs.bulk.batch_tables import BatchTables, LevelEdges
from spatial_udfs.bulk.buckets import BucketEntities
from spatial_udfs.bulk.placed_members import PlacedBucket, PlacedRows, rows_of_nodes
from spatial_udfs.entity_table import Bools
from spatial_udfs.place_geometries import projected_places
from spatial_udfs.topology.shapes import stored_geometries


def ask_places(cells: CellReader, cell: tuple[int, int], edges: LevelEdges) -> Iterator[Sent]:
    """Send what the places of a slice find in a bucket to the cell of both, which asks."""
    bucket, number = cell
    bound = cells.state.placed.get(number)
    if bound is None:
        return
    tables = cells.compiled(number).tables
    references: SliceReferences = cells.scratch.get(bound.path)
    asked = _open_questions(references, tables, edges)
    entities = cells.world.entities(bucket)
    written = cells.world.geometries(bucket, entities.peids)
    geometries = stored_geometries(written.to_numpy(zero_copy_only=False), entities.peids)
    placed = PlacedBucket(entities.peids, geometries, entities.shapes)
    to = cells.state.cell(bucket, number)
    for condition, questions in asked.items():
        for rows in _found(placed, entities, tables, condition, questions, references.srid):
            if len(rows.nodes):
                yield to, rows


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
