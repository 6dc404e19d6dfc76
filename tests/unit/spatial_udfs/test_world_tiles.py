"""Tiles share the entities out evenly, also where they lie close together or on one place."""

from __future__ import annotations

import numpy as np
import pytest

from spatial_udfs.bulk.world_tiles import ENTITIES_PER_TILE, Places, cut_into_tiles

WHOLE_PLANE = [[-np.inf, -np.inf, np.inf, np.inf]]


def tiles_of(places: Places, tiles: int) -> tuple[int, list[int]]:
    """How many tiles there are, and in how many of them each place lies, as a count of each."""
    boxes = cut_into_tiles(places, tiles * ENTITIES_PER_TILE)
    in_tile = (boxes[:, None, :2] <= places).all(axis=2) & (places < boxes[:, None, 2:]).all(axis=2)
    assert (in_tile.sum(axis=0) == 1).all(), "a place lies in one tile"
    return len(boxes), in_tile.sum(axis=1).tolist()


@pytest.mark.parametrize("spread", [1.0, 1_000.0])
def test_tiles_hold_about_as_many_places_each(spread: float) -> None:
    random = np.random.default_rng(4)
    dense = random.normal(0.0, 1.0, (5_000, 2))
    wide = random.normal(0.0, spread, (5_000, 2))
    tiles, held = tiles_of(np.concatenate([dense, wide]), 50)
    assert 50 <= tiles <= 100
    assert max(held) <= 200
    assert min(held) >= 90


def test_one_place_is_not_cut() -> None:
    assert cut_into_tiles(np.ones((500, 2)), 10**9).tolist() == WHOLE_PLANE


def test_a_place_with_most_of_all_gets_a_tile_to_itself() -> None:
    places = np.concatenate([np.zeros((900, 2)), np.arange(200.0).reshape(100, 2) - 100])
    tiles, held = tiles_of(places, 20)
    assert sorted(held)[-2:][0] <= 50
    assert max(held) == 900 + (places[900:] == 0).all(axis=1).sum()
    assert tiles > 2


@pytest.mark.parametrize(
    "places", [np.empty((0, 2)), np.zeros((1, 2)), np.random.default_rng(1).random((30, 2))]
)
def test_a_small_world_is_one_tile(places: Places) -> None:
    assert cut_into_tiles(places, len(places)).tolist() == WHOLE_PLANE
