"""The layers of a synthetic city, each a few vectorised draws over one bent street grid.

Street corners have integer coordinates and everything that has to touch a street lies at an
exact binary fraction (1/2, 1/4, 1/8) of it, so touching, sharing a border and lying on a line
are exact in floating point and never a matter of luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries

Floats = NDArray[np.float64]
Texts = NDArray[Any]

SPACING: Final = 100
# Corners move by at most a fifth of the spacing: every block stays a convex quadrilateral.
MAX_BEND: Final = 20
SHARE_BENT: Final = 0.4
SHARE_MISSING_STREETS: Final = 0.06
SECONDARY_EVERY: Final = 5
MOTORWAY_EVERY: Final = 20

SHOPS: Final = ("shop/bakery", "shop/food/market", "shop/food/cafe", "shop/books", "shop/pharmacy")


@dataclass(frozen=True, slots=True)
class Layer:
    """Entities of one kind; ``further`` is a second category or the empty string."""

    geometries: Geometries
    categories: Texts
    further: Texts
    title: str

    @classmethod
    def of(cls, made: Any, categories: Texts | str, title: str) -> Layer:
        """Return a layer whose entities have one category each.

        ``made`` is an array of geometries; shapely's types say "one geometry or an array".
        """
        geometries: Geometries = np.asarray(made)
        count = len(geometries)
        filled = np.full(count, categories, dtype=object)
        return cls(geometries, filled, np.full(count, "", dtype=object), title)


@dataclass(frozen=True, slots=True)
class StreetGrid:
    """Corners of ``side`` x ``side`` blocks, and the streets that were built between them."""

    side: int
    corners: Floats
    streets: Floats
    categories: Texts

    @classmethod
    def draw(cls, side: int, origin: tuple[int, int], rng: np.random.Generator) -> StreetGrid:
        """Bend some corners, connect them, and leave some minor streets out."""
        count = side + 1
        place = np.stack(np.meshgrid(np.arange(count), np.arange(count), indexing="ij"), axis=-1)
        bend = rng.integers(-MAX_BEND, MAX_BEND + 1, size=(count, count, 2))
        bend[rng.random((count, count)) > SHARE_BENT] = 0
        corners = (place * SPACING + bend + np.array(origin)).astype(np.float64)
        eastward = np.stack([corners[:-1], corners[1:]], axis=2).reshape(-1, 2, 2)
        northward = np.stack([corners[:, :-1], corners[:, 1:]], axis=2).reshape(-1, 2, 2)
        lines = np.concatenate([np.tile(np.arange(count), side), np.repeat(np.arange(count), side)])
        categories = np.full(len(lines), "road/minor/residential", dtype=object)
        categories[lines % SECONDARY_EVERY == 0] = "road/major/secondary"
        categories[lines % MOTORWAY_EVERY == 0] = "road/major/motorway"
        built = (lines % SECONDARY_EVERY == 0) | (rng.random(len(lines)) >= SHARE_MISSING_STREETS)
        streets = np.concatenate([eastward, northward])
        return cls(side, corners, streets[built], categories[built])

    def ring(self, west: int, south: int, east: int, north: int) -> Floats:
        """Return the outline of a rectangle of blocks, through every corner on the way."""
        corners = self.corners
        return np.concatenate(
            [
                corners[west:east, south],
                corners[east, south:north],
                corners[east:west:-1, north],
                corners[west, north:south:-1],
                corners[west : west + 1, south],
            ]
        )

    def blocks(self, cells: NDArray[np.int64]) -> Floats:
        """Return the four corners of each block, counter-clockwise."""
        i, j = np.divmod(cells, self.side)
        c = self.corners
        return np.stack([c[i, j], c[i + 1, j], c[i + 1, j + 1], c[i, j + 1]], axis=1)

    def some_blocks(self, count: int, rng: np.random.Generator) -> Floats:
        """Return distinct blocks, at most as many as there are."""
        cells = self.side * self.side
        return self.blocks(rng.choice(cells, size=min(count, cells), replace=False))

    def some_streets(self, count: int, rng: np.random.Generator) -> Floats:
        """Return distinct streets, at most as many as there are."""
        chosen = rng.choice(len(self.streets), size=min(count, len(self.streets)), replace=False)
        return self.streets[chosen]


def _left_of(vectors: Floats) -> Floats:
    return np.stack([-vectors[:, 1], vectors[:, 0]], axis=1)


def diagonals(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return streets from corner to corner through a block."""
    blocks = grid.some_blocks(count, rng)
    return Layer.of(shapely.linestrings(blocks[:, [0, 2]]), "road/minor/residential", "Diagonal")


def dead_ends(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return bent streets that start at a corner and end inside the block."""
    blocks = grid.some_blocks(count, rng)
    start, toward = blocks[:, 1], blocks[:, 3] - blocks[:, 1]
    bend = start + toward / 4
    lines = np.stack([start, bend, bend + _left_of(toward) / 8], axis=1)
    return Layer.of(shapely.linestrings(lines), "road/minor/service", "Dead end")


def roundabouts(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return closed lines around a corner, with a vertex on each of the four streets."""
    inner = grid.side - 1
    cells = rng.choice(inner * inner, size=min(count, inner * inner), replace=False)
    i, j = np.divmod(cells, max(inner, 1))
    c, i, j = grid.corners, i + 1, j + 1
    middle = c[i, j]
    around = (c[i + 1, j], c[i, j + 1], c[i - 1, j], c[i, j - 1], c[i + 1, j])
    rings = np.stack([middle + (corner - middle) / 8 for corner in around], axis=1)
    return Layer.of(shapely.linestrings(rings), "road/minor/roundabout", "Roundabout")


def bus_routes(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return multi-lines over two streets of one row that meet or have a gap between them."""
    columns = max(grid.side - 2, 0)
    cells = rng.choice(columns * grid.side, size=min(count, columns * grid.side), replace=False)
    i, j = np.divmod(cells, grid.side)
    gap = rng.integers(1, 3, size=len(cells))
    c = grid.corners
    streets = np.stack([c[i, j], c[i + 1, j], c[i + gap, j], c[i + gap + 1, j]], axis=1)
    lines = np.asarray(shapely.linestrings(streets.reshape(-1, 2, 2)))
    routes = shapely.multilinestrings(lines, indices=np.repeat(np.arange(len(cells)), 2))
    return Layer.of(routes, "route/bus", "Bus route")


def parking(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return lots with one side on a street, and entrances at a corner or in the middle of one."""
    streets = grid.some_streets(count, rng)
    start, along = streets[:, 0], streets[:, 1] - streets[:, 0]
    kinds = rng.integers(0, 6, size=len(streets))
    depth = _left_of(along) / 8
    first, last = start + along / 4, start + along * 0.75
    corners = np.stack([first, last, last + depth, first + depth], axis=1)
    lots: Geometries = np.asarray(shapely.polygons(corners))
    lots[kinds == 4] = shapely.points(start[kinds == 4])
    lots[kinds == 5] = shapely.points((start + along / 2)[kinds == 5])
    return Layer.of(lots, "transport/parking", "Parking")


def stops(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return bus stops on a street, and tram stops as multi-points of two platforms beside it."""
    streets = grid.some_streets(count, rng)
    start, along = streets[:, 0], streets[:, 1] - streets[:, 0]
    at: Geometries = np.asarray(shapely.points(start + along / 4))
    tram = rng.random(len(streets)) < 0.2
    first = start + along / 4 + _left_of(along) / 16
    platforms = np.asarray(shapely.points(np.stack([first, first + along / 2], axis=1)[tram]))
    owners = np.repeat(np.arange(int(tram.sum())), 2)
    at[tram] = shapely.multipoints(platforms.ravel(), indices=owners)
    return Layer.of(at, np.where(tram, "transport/stop/tram", "transport/stop/bus"), "Stop")


def shops(grid: StreetGrid, count: int, rng: np.random.Generator) -> Layer:
    """Return points anywhere, to an eighth of a metre; some share a place, some a category."""
    low, high = grid.corners[0, 0], grid.corners[-1, -1]
    places = np.round((low + rng.random((count, 2)) * (high - low)) * 8) / 8
    shared = rng.random(count) < 0.02
    places[shared] = places[rng.integers(0, max(count, 1), size=int(shared.sum()))]
    kinds = np.array(SHOPS, dtype=object)
    layer = Layer.of(shapely.points(places), kinds[rng.integers(0, len(SHOPS), count)], "Shop")
    layer.further[rng.random(count) < 0.1] = "service/delivery"
    return layer
