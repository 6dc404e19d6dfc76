"""The stages of the bulk job give what the definition gives, in any number of buckets.

Without Spark: buckets are dictionaries here, and what Sedona would measure is measured by brute
force. So every small world and neighborhood can be tried, with heavy references too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import HealthCheck, Phase, example, find, given, settings
from hypothesis import strategies as st

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from spatial_udfs.batch.batch_tables import numbers_among
from spatial_udfs.batch.compiled_slice import (
    NOTHING_KNOWN,
    CompiledSlice,
    LevelPlan,
    compile_slice,
    level_plans,
    meaning_of,
)
from spatial_udfs.batch.descriptor_parts import descriptor_parts, shown_nodes
from spatial_udfs.batch.graph_tables import (
    GraphTables,
    graph_tables,
    level_sources,
    node_ids,
    stage_kinds,
)
from spatial_udfs.batch.shown_rows import ShownNodes
from spatial_udfs.batch.slice_references import references_of
from spatial_udfs.batch.subscription_parts import part_of_texts
from spatial_udfs.bulk import placed_members, tile_pairs
from spatial_udfs.bulk.bucket_parts import BucketPart, EntityColumns, PairColumns
from spatial_udfs.bulk.buckets import BucketEntities, PairRows
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.placed_members import PlacedBucket, PlacedRows, placed_rows
from spatial_udfs.bulk.sedona_joins import LARGE, TILE
from spatial_udfs.bulk.stage_rows import (
    FarTotals,
    Members,
    NearPairs,
    NearRows,
    RelatedRows,
    all_members,
    by_bucket,
    routed,
    taken,
)
from spatial_udfs.bulk.tile_pairs import CHANGED, TileTask
from spatial_udfs.entity_table import EntityTable
from tests.oracle.definition import entities_of, resolve_by_definition
from tests.strategies.near_degenerate import near_degenerate_worlds, pair_world
from tests.strategies.neighborhoods import neighborhoods, worlds_in_degrees
from tests.strategies.worlds import worlds

DIAMETER = 1e6
FIRST_LEVEL = 1
NOBODY = np.empty(0, np.int64)
# Cells that GEOS fills differently in the two orders of the known pair, and what shares a point.
RELATED_BY_A_CELL = [
    read_neighborhood(f"({{{reference}}},{{#}},{condition})")
    for reference in (1, 2)
    for condition in ("Relate(*1*******)", "Relate(***1*****)", "I AND DW0")
]


class SmallWorld:
    """A world in buckets, all of it in memory."""

    def __init__(self, table: EntityTable, buckets: int, heavy_from: int) -> None:
        self.table = table
        self.buckets = buckets
        self.vocabulary = [sorted(set(each.categories)) for each in entities_of(table)]
        everywhere = np.array([[-np.inf, -np.inf, np.inf, np.inf]])
        rows = pa.table(
            {
                TILE: np.zeros(len(table), np.int32),
                PEID: table.peids,
                CATEGORIES: pa.array(self.vocabulary, pa.list_(pa.string())),
                CHANGED: np.ones(len(table), np.bool_),
                LARGE: np.zeros(len(table), np.bool_),
                GEOMETRY: pa.array(shapely.to_wkb(table.geometries).tolist(), pa.binary()),
            }
        )
        # Spark brings rows in any order: here it is never the one of the peids.
        backwards = np.arange(len(table))[::-1]
        task = TileTask(everywhere, self.vocabulary, buckets)
        with patch.object(tile_pairs, "HEAVY_IN_STEP", heavy_from):
            parts: list[tuple[int, BucketPart]] = list(task(rows.take(backwards).to_batches()))
        self._parts = parts
        self.heavy = np.unique(np.concatenate([NOBODY, *(part.heavy for _, part in parts)]))
        kinds = [part.pairs.kinds for _, part in parts]
        self.pair_kinds = np.unique(np.concatenate([np.empty(0, np.int32), *kinds]))

    def entities(self, bucket: int) -> BucketEntities:
        own = EntityColumns.joined([part.entities for at, part in self._parts if at == bucket])
        own = own.at(np.argsort(own.peids))
        return BucketEntities(*own, heavy=np.isin(own.peids, self.heavy))

    def pairs(self, bucket: int) -> PairRows:
        own = PairColumns.joined([part.pairs for at, part in self._parts if at == bucket])
        return PairRows(*own.at(np.argsort(own.references, kind="stable")))

    def geometries(self, asked: Any) -> pa.Array:
        places, _ = self.table.positions_of(asked)
        return pa.array(shapely.to_wkb(self.table.geometries[places]).tolist(), pa.binary())

    def near(self) -> Iterator[tuple[int, NearPairs]]:
        """All disjoint pairs, by the bucket of their reference."""
        first, second = np.meshgrid(*[np.arange(len(self.table))] * 2)
        shapes = self.table.geometries
        apart = shapely.disjoint(shapes[first.ravel()], shapes[second.ravel()])
        one, other = first.ravel()[apart], second.ravel()[apart]
        distances = shapely.distance(shapes[one], shapes[other])
        pairs = NearPairs(self.table.peids[one], self.table.peids[other], distances)
        for bucket, places in by_bucket(pairs.references, self.buckets):
            yield bucket, taken(pairs, places)


def compiled(
    world: SmallWorld, wanted: list[Neighborhood]
) -> tuple[CompiledSlice, list[LevelPlan], GraphTables, ShownNodes]:
    texts = [each.to_json() for each in wanted]
    parts = descriptor_parts(part_of_texts(np.arange(len(texts)), pa.array(texts)), 0, 1)
    found = [part for _, part in parts]
    graph = graph_tables(pa.concat_tables([part.graph for part in found]))
    pair_kinds = tuple(world.pair_kinds.tolist())
    kinds = stage_kinds(graph.nodes)
    meaning = meaning_of(kinds, world.vocabulary, pair_kinds, DIAMETER, 1_000)
    shown = shown_nodes(node_ids(graph), found)
    batch = compile_slice(graph, shown, NOTHING_KNOWN, meaning)
    return batch, level_plans(kinds, level_sources(graph), meaning), graph, shown


def rows_of_places(
    world: SmallWorld, batch: CompiledSlice, graph: GraphTables
) -> dict[int, list[PlacedRows]]:
    """What places find, by bucket."""
    references = references_of(graph, [], world.table.srid)
    if not references.questions:
        return {}
    found: dict[int, list[PlacedRows]] = {}
    for bucket in range(world.buckets):
        entities = world.entities(bucket)
        written = world.geometries(entities.peids)
        edges = batch.levels[FIRST_LEVEL]
        found[bucket] = list(placed_rows(references, batch.tables, edges, entities, written))
    return found


State = dict[int, list[Members]]


def advanced(
    world: SmallWorld,
    batch: CompiledSlice,
    level: int,
    state: State,
    placed: dict[int, list[PlacedRows]],
) -> State:
    """One level in all buckets; ``placed`` is for the first level."""
    edges = batch.levels[level]

    def stage(bucket: int, blocks: list[Members]) -> BulkStage:
        return BulkStage(edges, batch.tables, world.entities(bucket), all_members(blocks))

    heavy = {
        bucket: [taken(block, np.flatnonzero(np.isin(block.entities, world.heavy)))
                 for block in blocks]
        for bucket, blocks in state.items()
    }  # fmt: skip
    found: dict[int, list[Any]] = {bucket: [] for bucket in state}
    near: dict[int, list[NearPairs]] = {}
    for bucket, pairs in world.near():
        near.setdefault(bucket, []).append(pairs)
    totals = []
    for bucket, blocks in state.items():
        elsewhere = [
            each for at, found_there in heavy.items() if at != bucket for each in found_there
        ]
        asking = BulkStage(edges, batch.tables, None, all_members([*blocks, *elsewhere]))
        for related in asking.ask_related(world.pairs(bucket)):
            for to, rows in routed(related, world.buckets):
                found[to].append(rows)
        if edges.with_distances:
            for pairs in near.get(bucket, ()):
                for to, rows in routed(stage(bucket, blocks).ask_near(pairs), world.buckets):
                    found[to].append(rows)
        if edges.with_far:
            totals.append(stage(bucket, blocks).references_by_shape())
    return {
        bucket: [
            *blocks,
            stage(bucket, blocks).select(
                [row for row in found[bucket] if isinstance(row, RelatedRows)],
                [row for row in found[bucket] if isinstance(row, NearRows)],
                FarTotals.added(totals),
                placed.get(bucket, []) if level == FIRST_LEVEL else [],
            ),
        ]
        for bucket, blocks in state.items()
    }


def resolved(world: SmallWorld, wanted: list[Neighborhood]) -> set[tuple[int, int, int]]:
    batch, plans, graph, shown = compiled(world, wanted)
    references = graph.references.column("reference").to_numpy()
    nodes = numbers_among(node_ids(graph), graph.references.column("node").to_numpy())
    state: State = {bucket: [] for bucket in range(world.buckets)}
    for bucket, rows in routed(Members(0, nodes, references), world.buckets):
        there = world.entities(bucket).has(rows.entities)
        state[bucket].append(taken(rows, np.flatnonzero(there)))
    placed = rows_of_places(world, batch, graph)
    for plan in plans:
        state = advanced(world, batch, plan.level, state, placed)
    rows = []
    for blocks in state.values():
        for block in blocks:
            ordered = taken(block, np.argsort(block.nodes, kind="stable"))
            count = int(batch.uses[ordered.nodes].sum())
            # In two shares, as two tasks would write them.
            for first, last in ((0, count // 2), (count // 2, count)):
                for columns in shown.written_out(ordered.nodes, ordered.entities, first, last):
                    rows += list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(set(rows)) == len(rows), "a row stands twice"
    return set(rows)


def expected(table: EntityTable, wanted: list[Neighborhood]) -> set[tuple[int, int, int]]:
    rows = set()
    for number, neighborhood in enumerate(wanted):
        stages, _ = resolve_by_definition(entities_of(table), neighborhood, table.srid)
        for stage, peids in enumerate(stages, start=1):
            if neighborhood.visible[stage - 1]:
                rows.update((number, peid, stage) for peid in peids)
    return rows


@st.composite
def scenes(
    draw: st.DrawFn, tables: st.SearchStrategy[EntityTable] | None = None
) -> tuple[EntityTable, list[Neighborhood], int, int]:
    table = draw(worlds(max_entities=9) if tables is None else tables)
    wanted = draw(st.lists(neighborhoods(table), min_size=1, max_size=4))
    return table, wanted, draw(st.integers(1, 4)), draw(st.sampled_from((0, 2, 1_000)))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(scene=scenes())
def test_stages_give_what_the_definition_gives(
    scene: tuple[EntityTable, list[Neighborhood], int, int],
) -> None:
    table, wanted, buckets, heavy_from = scene
    assert resolved(SmallWorld(table, buckets, heavy_from), wanted) == expected(table, wanted)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(scene=scenes(worlds_in_degrees()), at_once=st.sampled_from((1, 20, 4_000_000)))
def test_stages_give_what_the_definition_gives_with_places(
    scene: tuple[EntityTable, list[Neighborhood], int, int], at_once: int
) -> None:
    table, wanted, buckets, heavy_from = scene
    with patch.object(placed_members, "PAIRS_AT_ONCE", at_once):
        assert resolved(SmallWorld(table, buckets, heavy_from), wanted) == expected(table, wanted)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@example(scene=(pair_world(line_first=True), RELATED_BY_A_CELL, 1, 1_000))
@example(scene=(pair_world(line_first=False), RELATED_BY_A_CELL, 1, 1_000))
@example(scene=(pair_world(line_first=True), RELATED_BY_A_CELL, 2, 0))
@given(scene=scenes(near_degenerate_worlds(max_entities=9)))
def test_stages_give_what_the_definition_gives_where_rounding_matters(
    scene: tuple[EntityTable, list[Neighborhood], int, int],
) -> None:
    table, wanted, buckets, heavy_from = scene
    assert resolved(SmallWorld(table, buckets, heavy_from), wanted) == expected(table, wanted)


@pytest.mark.parametrize(
    ("target", "name", "broken"),
    [
        (PlacedBucket, "tied", lambda *_: iter(())),
        (BulkStage, "ask_related", lambda _stage, _pairs: iter(())),
        (BulkStage, "ask_near", lambda _, near: NearRows(near.references[:0].astype(np.int32),
         near.entities[:0], near.distances[:0], near.references[:0].astype(np.uint8))),
        (BulkStage, "references_by_shape", lambda _: FarTotals.added([])),
    ],
)  # fmt: skip
def test_a_broken_stage_is_caught(target: Any, name: str, broken: Any) -> None:
    def is_wrong(scene: tuple[EntityTable, list[Neighborhood], int, int]) -> bool:
        table, wanted, buckets, heavy_from = scene
        right = expected(table, wanted)
        world = SmallWorld(table, buckets, heavy_from)
        with patch.object(target, name, broken):
            return resolved(world, wanted) != right

    search = settings(
        max_examples=2_000, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    tables = worlds_in_degrees() if target is PlacedBucket else None
    find(scenes(tables), is_wrong, settings=search)
