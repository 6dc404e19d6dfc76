"""Pairs found tile by tile: every one that meets, each in one tile alone, with its matrix."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from schemas.entity import PEID
from schemas.related import CATEGORY_SET, ENTITY, PAIR_KIND, REFERENCE
from spatial_udfs import sedona_pair_matrices
from spatial_udfs.entity_table import EntityTable
from spatial_udfs.sedona_entities import SHAPE
from spatial_udfs.sedona_pair_kinds import decoded
from spatial_udfs.sedona_pair_matrices import CHANGED, WKB, pairs_of_tiles
from spatial_udfs.sedona_tiles import TILE
from spatial_udfs.shapes import shape_codes
from spatial_udfs.world_tiles import ENTITIES_PER_TILE, Boxes, cut_into_tiles
from tests.oracle.definition import matrix_of
from tests.strategies.worlds import worlds

Pair = tuple[int, int, str, int]


def small_tiles(world: EntityTable, per_tile: int) -> Boxes:
    """Tiles with so many entities at most, unless they begin in the same place."""
    corners = shapely.bounds(world.geometries)[:, :2]
    return cut_into_tiles(corners, len(world) * ENTITIES_PER_TILE // per_tile)


def found_pairs(world: EntityTable, tiles: Boxes, changed: Any) -> list[Pair]:
    """What one task finds that has all tiles; the category set of an entity is its position."""
    boxes = shapely.box(*tiles.clip(-1e9, 1e9).T)
    around = shapely.box(*shapely.bounds(world.geometries).T)
    entity, tile = shapely.STRtree(boxes).query(around)
    rows = pa.table(
        {
            TILE: tile.astype(np.int32),
            PEID: world.peids[entity],
            SHAPE: shape_codes(world)[entity].astype(np.int32),
            CATEGORY_SET: entity.astype(np.int32),
            CHANGED: changed[entity],
            WKB: shapely.to_wkb(world.geometries[entity]),
        }
    )
    batches = pairs_of_tiles(rows.to_batches(max_chunksize=3), tiles=tiles)
    return sorted(
        (row[REFERENCE], row[ENTITY], decoded(row[PAIR_KIND])[2], row[CATEGORY_SET])
        for batch in batches
        for row in batch.to_pylist()
    )


def expected_pairs(world: EntityTable, changed: Any) -> list[Pair]:
    peids = world.peids.tolist()
    return sorted(
        (peids[i], peids[j], matrix_of(r, e), j)
        for i, r in enumerate(world.geometries)
        for j, e in enumerate(world.geometries)
        if i != j and (changed[i] or changed[j]) and shapely.intersects(r, e)
    )


def is_wrong(world: EntityTable, per_tile: int, moved: float = 0.0) -> bool:
    changed = world.peids % 3 != 0
    tiles = small_tiles(world, per_tile)
    tiles[:, 2:] += moved
    found = found_pairs(world, tiles, changed)
    return found != expected_pairs(world, changed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(max_entities=10), per_tile=st.integers(1, 10))
def test_tiles_find_every_pair_once(world: EntityTable, per_tile: int) -> None:
    with patch.object(sedona_pair_matrices, "REFERENCES_PER_STEP", 2):
        assert not is_wrong(world, per_tile)


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
