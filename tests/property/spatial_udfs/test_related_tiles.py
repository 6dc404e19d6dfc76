"""Pairs found tile by tile: every one that meets, each in one tile alone, with its matrix."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import HealthCheck, Phase, example, find, given, settings
from hypothesis import strategies as st

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from spatial_udfs.bulk import tile_pairs
from spatial_udfs.bulk.bucket_parts import BucketPart
from spatial_udfs.bulk.buckets import bucket_of
from spatial_udfs.bulk.sedona_joins import LARGE, TILE
from spatial_udfs.bulk.tile_pairs import CHANGED, TileTask
from spatial_udfs.bulk.world_tiles import ENTITIES_PER_TILE, Boxes, cut_into_tiles
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.topology.pair_kinds import decoded
from spatial_udfs.topology.shapes import shape_codes
from tests.oracle.definition import entities_of, meet, pair_matrix
from tests.strategies.near_degenerate import near_degenerate_worlds, pair_world
from tests.strategies.worlds import table_of, worlds

Pair = tuple[int, int, str, int]
BUCKETS = 3


def small_tiles(world: EntityTable, per_tile: int) -> Boxes:
    """Tiles with so many entities at most, unless they begin in the same place."""
    corners = shapely.bounds(world.geometries)[:, :2]
    return cut_into_tiles(corners, len(world) * ENTITIES_PER_TILE // per_tile)


def found_parts(
    world: EntityTable, tiles: Boxes, changed: Any, *, backwards: bool = False
) -> list[tuple[int, BucketPart]]:
    """What one task finds that has all tiles; the category set of an entity is its position.

    ``backwards``: the rows come by descending peid.
    """
    boxes = shapely.box(*tiles.clip(-1e9, 1e9).T)
    around = shapely.box(*shapely.bounds(world.geometries).T)
    entity, tile = shapely.STRtree(boxes).query(around)
    if backwards:
        entity, tile = entity[::-1], tile[::-1]
    rows = pa.table(
        {
            TILE: tile.astype(np.int32),
            PEID: world.peids[entity],
            CATEGORIES: [[f"{place:03d}"] for place in entity],
            CHANGED: changed[entity],
            LARGE: np.zeros(len(entity), np.bool_),
            GEOMETRY: shapely.to_wkb(world.geometries[entity]),
        }
    )
    task = TileTask(tiles, [[f"{place:03d}"] for place in range(len(world))], BUCKETS)
    return list(task(rows.to_batches(max_chunksize=3)))


def found_pairs(
    world: EntityTable, tiles: Boxes, changed: Any, *, backwards: bool = False
) -> list[Pair]:
    return sorted(
        (reference, entity, decoded(kind)[2], category_set)
        for _, part in found_parts(world, tiles, changed, backwards=backwards)
        for reference, entity, kind, category_set in zip(
            *(column.tolist() for column in part.pairs), strict=True
        )
    )


def expected_pairs(world: EntityTable, changed: Any) -> list[Pair]:
    entities = entities_of(world)
    return sorted(
        (r.peid, e.peid, matrix, j)
        for i, r in enumerate(entities)
        for j, e in enumerate(entities)
        if i != j and (changed[i] or changed[j]) and meet(matrix := pair_matrix(r, e))
    )


def is_wrong(
    world: EntityTable, per_tile: int, moved: float = 0.0, *, backwards: bool = False
) -> bool:
    changed = world.peids % 3 != 0
    tiles = small_tiles(world, per_tile)
    tiles[:, 2:] += moved
    found = found_pairs(world, tiles, changed, backwards=backwards)
    return found != expected_pairs(world, changed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(max_entities=10), per_tile=st.integers(1, 10))
def test_tiles_find_every_pair_once(world: EntityTable, per_tile: int) -> None:
    with patch.object(tile_pairs, "REFERENCES_PER_STEP", 2):
        assert not is_wrong(world, per_tile)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(world=pair_world(line_first=True), per_tile=10)
@example(world=pair_world(line_first=False), per_tile=10)
@given(world=near_degenerate_worlds(max_entities=10), per_tile=st.integers(1, 10))
def test_rounding_leaves_one_matrix_for_a_pair(world: EntityTable, per_tile: int) -> None:
    """Rows reach a tile in any order; the peids alone say which comes first."""
    assert not is_wrong(world, per_tile, backwards=True)


@pytest.mark.parametrize("moved", [-0.5, 0.5])
def test_tiles_that_gape_or_overlap_are_caught(moved: float) -> None:
    search = settings(
        max_examples=1_000,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    find(worlds(max_entities=10), lambda world: is_wrong(world, 2, moved), settings=search)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(max_entities=10), per_tile=st.integers(1, 10))
def test_each_bucket_gets_what_is_looked_up_in_it(world: EntityTable, per_tile: int) -> None:
    with patch.object(tile_pairs, "HEAVY_IN_STEP", 2):
        parts = found_parts(world, small_tiles(world, per_tile), np.ones(len(world), np.bool_))
    heavy = {peid for _, part in parts for peid in part.heavy.tolist()}
    for bucket, part in parts:
        references, entities = part.pairs.references, part.pairs.entities
        home = bucket_of(references, BUCKETS) == bucket
        spread = np.isin(references, sorted(heavy)) & (bucket_of(entities, BUCKETS) == bucket)
        assert (home | spread).all()
        assert (bucket_of(part.entities.peids, BUCKETS) == bucket).all()
    placed = sorted(
        row
        for _, part in parts
        for row in zip(*(column.tolist() for column in part.entities), strict=True)
    )
    shapes = shape_codes(world).tolist()
    assert placed == list(zip(world.peids.tolist(), shapes, range(len(world)), strict=True))


def test_a_reference_with_very_many_pairs_is_heavy() -> None:
    points = shapely.points([(place, place % 7) for place in range(1, 40)])
    rows = [(peid, ("poi",), point) for peid, point in enumerate(points)]
    zone = (1_000, ("zone",), shapely.box(0, -1, 50, 8))
    world = table_of([*rows, zone])
    with patch.object(tile_pairs, "HEAVY_IN_STEP", 20):
        parts = found_parts(world, small_tiles(world, 100), np.ones(len(world), np.bool_))
    assert {peid for _, part in parts for peid in part.heavy.tolist()} == {1_000}
    shares = [int((part.pairs.references == 1_000).sum()) for _, part in parts]
    assert sum(shares) == len(rows)
    assert max(shares) < len(rows)
