"""The zones of a synthetic city: nested areas that share their borders, some with holes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import shapely

from spatial_udfs.entity_table import Geometries
from testing.city_layers import Floats, Layer, StreetGrid

DISTRICT_BLOCKS: Final = 10
SMALLEST_WITH_PARK: Final = 3
PARK_EVERY: Final = 5
QUARTERS_EVERY: Final = 3
BLOCK_USES: Final = ("residential", "commercial", "industrial")

Rectangle = tuple[int, int, int, int]


def region(grid: StreetGrid) -> Layer:
    """Return the western third of the city as one zone: it holds a third of all entities."""
    width = max(1, round(grid.side / 3))
    ring = grid.ring(0, 0, width, grid.side)
    return Layer.of(_areas([ring]), "zone/region", "Region")


def districts(grid: StreetGrid) -> Iterator[Layer]:
    """Yield districts all over the city, parks in the holes of some, quarters inside some."""
    rectangles = list(_rectangles(grid.side))
    holes = {
        number: _middle_block(rectangle)
        for number, rectangle in enumerate(rectangles)
        if number % PARK_EVERY == 0 and _is_large(rectangle)
    }
    outlines = [grid.ring(*rectangle) for rectangle in rectangles]
    areas = _areas(outlines)
    parks = _areas([grid.ring(*hole) for hole in holes.values()])
    for number, park in zip(holes, parks, strict=True):
        areas[number] = shapely.polygons(outlines[number], holes=[shapely.get_exterior_ring(park)])
    yield Layer.of(areas, "zone/district", "District")
    yield Layer.of(parks, "zone/park", "Park")
    quarters = [
        grid.ring(*quarter)
        for rectangle in rectangles[1::QUARTERS_EVERY]
        for quarter in _quarters(rectangle)
    ]
    yield Layer.of(_areas(quarters), "zone/quarter", "Quarter")


def blocks(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return single blocks as zones: they share borders with streets, districts and each other."""
    areas = np.asarray(shapely.polygons(grid.some_blocks(count, rng)))
    uses = np.array([f"zone/block/{use}" for use in BLOCK_USES], dtype=object)
    return Layer.of(areas, uses[rng.integers(0, len(uses), len(areas))], "Block")


def campuses(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return multi-polygons of two blocks that meet in one corner or not at all."""
    inner = max(grid.side - 2, 0)
    cells = rng.choice(inner * inner, size=min(count, inner * inner), replace=False)
    i, j = np.divmod(cells, max(inner, 1))
    apart = rng.integers(1, 3, size=len(cells))
    first = grid.blocks(i * grid.side + j)
    second = grid.blocks((i + apart) * grid.side + j + apart)
    corners = np.stack([first, second], axis=1).reshape(-1, 4, 2)
    parts = np.asarray(shapely.polygons(corners))
    areas = shapely.multipolygons(parts, indices=np.repeat(np.arange(len(cells)), 2))
    return Layer.of(areas, "zone/campus", "Campus")


def _areas(rings: list[Floats]) -> Geometries:
    owners = np.repeat(np.arange(len(rings)), [len(ring) for ring in rings])
    points = np.concatenate(rings) if rings else np.empty((0, 2))
    return np.asarray(shapely.polygons(np.asarray(shapely.linearrings(points, indices=owners))))


def _rectangles(side: int) -> Iterator[Rectangle]:
    starts = range(0, side, DISTRICT_BLOCKS)
    for west in starts:
        for south in starts:
            yield (
                west,
                south,
                min(west + DISTRICT_BLOCKS, side),
                min(south + DISTRICT_BLOCKS, side),
            )


def _is_large(rectangle: Rectangle) -> bool:
    west, south, east, north = rectangle
    return min(east - west, north - south) >= SMALLEST_WITH_PARK


def _middle_block(rectangle: Rectangle) -> Rectangle:
    west, south, east, north = rectangle
    column, row = (west + east) // 2, (south + north) // 2
    return column, row, column + 1, row + 1


def _quarters(rectangle: Rectangle) -> Iterator[Rectangle]:
    if not _is_large(rectangle):
        return
    west, south, east, north = rectangle
    column, row = (west + east) // 2, (south + north) // 2
    for left, right in ((west, column), (column, east)):
        for low, high in ((south, row), (row, north)):
            yield left, low, right, high
