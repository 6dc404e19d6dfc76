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

from jobs.pipeline.pairs.related_tables import RelatedWorld
from jobs.pipeline.stages.level_loop import added
from jobs.pipeline.stages.level_tasks import FarTotals
from jobs.pipeline.subscriptions.compiled_batch import CompiledBatch, LevelPlan, compile_batch
from jobs.pipeline.subscriptions.descriptor_parts import descriptor_part
from jobs.pipeline.subscriptions.graph_tables import graph_tables
from jobs.pipeline.subscriptions.subscription_parts import part_of_texts
from schemas.entity import CATEGORIES, GEOMETRY, PEID
from schemas.language.neighborhood import Neighborhood
from schemas.language.notation import read_neighborhood
from spatial_udfs.bulk import tile_pairs
from spatial_udfs.bulk.bucket_parts import BucketPart, EntityColumns, PairColumns, unpacked
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.sedona_tiles import TILE
from spatial_udfs.bulk.stage_rows import (
    Members,
    NearPairs,
    NearRows,
    RelatedRows,
    by_bucket,
    routed,
    taken,
)
from spatial_udfs.bulk.tile_pairs import CHANGED, TileTask
from spatial_udfs.bulk.world_bucket import BucketEntities, HeavyEntities, PairRows
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.topology.shapes import SHAPE_COUNT
from tests.oracle.definition import entities_of, resolve_by_definition
from tests.strategies.near_degenerate import near_degenerate_worlds, pair_world
from tests.strategies.neighborhoods import neighborhoods
from tests.strategies.worlds import worlds

DIAMETER = 1e6
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
                GEOMETRY: pa.array(shapely.to_wkb(table.geometries).tolist(), pa.binary()),
            }
        )
        # Spark brings rows in any order: here it is never the one of the peids.
        backwards = np.arange(len(table))[::-1]
        task = TileTask(everywhere, self.vocabulary, buckets, np.empty(0, np.int64))
        with patch.object(tile_pairs, "HEAVY_IN_STEP", heavy_from):
            parts: list[tuple[int, BucketPart]] = [
                (row["bucket"], unpacked(row["part"]))
                for batch in task(rows.take(backwards).to_batches())
                for row in batch.to_pylist()
            ]
        heavy = EntityColumns.joined([part.heavy for _, part in parts])
        _, first = np.unique(heavy.peids, return_index=True)
        self.heavy = HeavyEntities(*heavy.at(first))
        self._parts = parts
        kinds = [part.pairs.kinds for _, part in parts]
        self.pair_kinds = np.unique(np.concatenate([np.empty(0, np.int32), *kinds]))

    def entities(self, bucket: int) -> BucketEntities:
        own = EntityColumns.joined([part.entities for at, part in self._parts if at == bucket])
        own = own.at(np.argsort(own.peids))
        return BucketEntities.of(bucket, self.buckets, tuple(own), self.heavy)

    def pairs(self, bucket: int) -> PairRows:
        own = PairColumns.joined([part.pairs for at, part in self._parts if at == bucket])
        return PairRows(*own.at(np.argsort(own.references, kind="stable")))

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


def compiled(world: SmallWorld, wanted: list[Neighborhood]) -> tuple[CompiledBatch, Any]:
    texts = [each.to_json() for each in wanted]
    part = descriptor_part(part_of_texts(np.arange(len(texts)), pa.array(texts)), 0)
    with pa.ipc.open_stream(part.for_driver().graph) as reader:
        graph = graph_tables(reader.read_all())
    related = RelatedWorld(
        buckets=None, vocabulary=world.vocabulary, pair_kinds=tuple(world.pair_kinds.tolist()),
        pair_count=0, diameter=DIAMETER, origin="",
    )  # type: ignore[arg-type]  # fmt: skip
    return compile_batch(graph, related, np.empty(0, np.int64)), part


def advanced(
    world: SmallWorld, batch: CompiledBatch, plan: LevelPlan, state: dict[int, list[Any]]
) -> dict[int, list[Any]]:
    """One level in all buckets."""

    def stage(bucket: int, blocks: list[Any]) -> BulkStage:
        return BulkStage(plan.edges, batch.tables, world.entities(bucket), blocks)

    totals = FarTotals(np.empty(0, np.int32), np.empty((0, SHAPE_COUNT), np.int64))
    if plan.edges.with_far:
        for bucket, blocks in state.items():
            here = FarTotals(*stage(bucket, blocks).references_by_shape())
            totals = added(totals, here)
    found: dict[int, list[Any]] = {bucket: list(blocks) for bucket, blocks in state.items()}
    for bucket, blocks in state.items():
        for related in stage(bucket, blocks).ask_related(world.pairs(bucket)):
            for at, rows in routed(related, world.buckets, world.heavy):
                found[at].append(rows)
    for bucket, near in world.near() if plan.edges.with_distances else ():
        near_rows = stage(bucket, state[bucket]).ask_near(near)
        for at, measured in routed(near_rows, world.buckets, world.heavy):
            found[at].append(measured)
    return {
        bucket: [
            *state[bucket],
            stage(bucket, blocks).select(
                [block for block in blocks if isinstance(block, RelatedRows)],
                [block for block in blocks if isinstance(block, NearRows)],
                *totals,
            ),
        ]
        for bucket, blocks in found.items()
    }


def resolved(world: SmallWorld, wanted: list[Neighborhood]) -> set[tuple[int, int, int]]:
    """Rows (number of the neighborhood, peid, stage) of visible stages."""
    batch, part = compiled(world, wanted)
    state: dict[int, list[Any]] = {bucket: [] for bucket in range(world.buckets)}
    written = Members(0, batch.reference_nodes, batch.references)
    for bucket, rows in routed(written, world.buckets, world.heavy):
        there = world.entities(bucket).has(rows.entities)
        state[bucket].append(taken(rows, np.flatnonzero(there)))
    for plan in batch.levels:
        state = advanced(world, batch, plan, state)
    members: dict[int, set[int]] = {}
    for bucket, blocks in state.items():
        entities = world.entities(bucket)
        for block in blocks:
            home = entities.is_home(block.entities)
            ids = batch.tables.node_ids[block.nodes[home]].tolist()
            for node, peid in zip(ids, block.entities[home].tolist(), strict=True):
                assert peid not in members.setdefault(node, set()), "a member stands twice"
                members[node].add(peid)
    return {
        (sub_id, peid, stage)
        for shown in part.shown()
        for row, (node, stage) in enumerate(
            zip(shown.nodes.tolist(), shown.stages.tolist(), strict=True)
        )
        for sub_id in shown.sub_ids[shown.starts[row] : shown.starts[row + 1]].tolist()
        for peid in members.get(node, ())
    }


def expected(table: EntityTable, wanted: list[Neighborhood]) -> set[tuple[int, int, int]]:
    rows = set()
    for number, neighborhood in enumerate(wanted):
        stages, _ = resolve_by_definition(entities_of(table), neighborhood)
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


def _nobody(_: HeavyEntities, peids: Any) -> Any:
    return np.empty(0, np.int32) if len(peids) else peids


@pytest.mark.parametrize(
    ("target", "name", "broken"),
    [
        (HeavyEntities, "among", _nobody),
        (BulkStage, "ask_near", lambda _, near: NearRows(near.references[:0].astype(np.int32),
         near.entities[:0], near.distances[:0], near.references[:0].astype(np.uint8))),
        (BulkStage, "references_by_shape", lambda _: (
            np.empty(0, np.int32), np.empty((0, SHAPE_COUNT), np.int64))),
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
    find(scenes(), is_wrong, settings=search)
