"""Synthetic cities of any size, the same for the same seed: for tests and benchmarks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import shapely

from spatial_udfs.entity_table import EntityTable, Int64s, Positions
from testing import city_layers, city_zones
from testing.city_layers import Layer, StreetGrid

SRID: Final = 25833
ORIGIN: Final = (390_000, 5_800_000)

# Shares of all entities. The street grid takes most, shops fill what the others leave.
GRID_STREETS: Final = 0.56
DIAGONALS: Final = 0.02
DEAD_ENDS: Final = 0.03
ROUNDABOUTS: Final = 0.002
BUS_ROUTES: Final = 0.002
PARKING: Final = 0.08
STOPS: Final = 0.05
BLOCKS: Final = 0.02
CAMPUSES: Final = 0.001

FIRST_PEID: Final = 10_000
# Peids have gaps, so that nothing can mistake a position for a peid.
PEID_STEP: Final = 3


def synthetic_city(entities: int, seed: int = 0) -> EntityTable:
    """Return a city of exactly this many entities; peids say nothing about where an entity lies."""
    if entities < 1:
        raise ValueError("a city has at least one entity")
    rng = np.random.default_rng(seed)
    side = max(1, math.isqrt(round(entities * GRID_STREETS / 2)))
    layers = list(_layers(StreetGrid.draw(side, ORIGIN, rng), entities, rng))
    # Only a city of a few dozen entities can have more zones and streets than it may hold.
    order = rng.permutation(sum(len(layer.geometries) for layer in layers))[:entities]
    peids = FIRST_PEID + PEID_STEP * np.arange(entities) + rng.integers(0, PEID_STEP, entities)
    names = [f"{layer.title} {n}" for layer in layers for n in range(1, len(layer.geometries) + 1)]
    category_names, offsets, codes = _coded_categories(layers, order)
    geometries = np.concatenate([layer.geometries for layer in layers])[order]
    return EntityTable(
        version=1,
        srid=SRID,
        peids=peids.astype(np.int64),
        geometries=geometries,
        names=np.array(names, dtype=object)[order],
        category_names=category_names,
        category_offsets=offsets,
        category_codes=codes,
    )


def _layers(grid: StreetGrid, entities: int, rng: np.random.Generator) -> Iterator[Layer]:
    streets = np.asarray(shapely.linestrings(grid.streets))
    left = entities - len(streets)
    yield Layer.of(streets, grid.categories, "Street")

    def share(of_all: float) -> int:
        return round(entities * of_all)

    fixed = [
        city_zones.region(grid),
        *city_zones.districts(grid),
        city_zones.blocks(grid, share(BLOCKS), rng),
        city_zones.campuses(grid, share(CAMPUSES), rng),
        city_layers.diagonals(grid, share(DIAGONALS), rng),
        city_layers.dead_ends(grid, share(DEAD_ENDS), rng),
        city_layers.roundabouts(grid, share(ROUNDABOUTS), rng),
        city_layers.bus_routes(grid, share(BUS_ROUTES), rng),
        city_layers.parking(grid, share(PARKING), rng),
        city_layers.stops(grid, share(STOPS), rng),
    ]
    yield from fixed
    left -= sum(len(layer.geometries) for layer in fixed)
    yield city_layers.shops(grid, max(left, 0), rng)


def _coded_categories(
    layers: list[Layer], order: Int64s
) -> tuple[tuple[str, ...], Int64s, Positions]:
    """Return category names, and their codes entity by entity in the order of the table."""
    first = np.concatenate([layer.categories for layer in layers])[order]
    second = np.concatenate([layer.further for layer in layers])[order]
    both = np.stack([first, second], axis=1).astype(str)
    names, codes = np.unique(both[both != ""], return_inverse=True)
    counts = (both != "").sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return tuple(names.tolist()), offsets, codes.astype(np.int32)
