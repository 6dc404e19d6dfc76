"""Worlds in which rounding matters: corners in tenths and thirds, and corners computed from others.

GEOS decides exactly who meets whom, but works with rounded points where segments cross. A corner
that was computed to lie on a segment or at a crossing lies beside it by some 1e-17. There the
matrix of (a, b) need not be the transposed matrix of (b, a), and a distance need not be 0.
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import shapely
from hypothesis import strategies as st
from shapely import affinity
from shapely.geometry import LineString, MultiLineString, Point, Polygon

from spatial_udfs.entity_table import EntityTable
from tests.strategies.worlds import CATEGORIES, table_of

Corner = tuple[float, float]

# A pair of which GEOS gives two matrices that are not each other's transpose.
TWISTED_LINE = shapely.from_wkt(
    "LINESTRING (0 0.30000000000000004, 0.2 0.1, 0.1 0, 0.1 0.30000000000000004)"
)
TRIANGLE = shapely.from_wkt("POLYGON ((0 0, 0.1 0.2, 0.2 0.1, 0 0))")

STEPS = (0.1, 1 / 3, 0.7)
# Along a segment from 0 to 1, and beyond both of its ends.
SHARES = (0.5, 1 / 3, 0.1, 0.7, 1.5, -0.5, 2.0)
SIDE = 4
# Corners are computed from so many segments: few make lines that run through each other often.
SEGMENTS = (6, 6, 20)
# Near the origin coordinates are finest; the other place is where a UTM zone has its cities.
PLACES = ((0.0, 0.0), (0.0, 0.0), (390_000.0, 5_800_000.0))


def pair_world(*, line_first: bool) -> EntityTable:
    """The known pair; the line has the lower peid, or the higher one."""
    line, area = (1, 2) if line_first else (2, 1)
    return table_of([(line, ("road",), TWISTED_LINE), (area, ("zone",), TRIANGLE)])


class NearDegenerateGeometries:
    """Draws geometries whose corners lie on, beside and at crossings of earlier segments."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311  no secret is made here
        self._step = self._random.choice(STEPS)
        self._most_segments = self._random.choice(SEGMENTS)
        self._segments: list[tuple[Corner, Corner]] = []

    def draw(self) -> Any:
        """The next geometry. Long lines across areas are what rounding shows in most."""
        kinds = (self._area, self._line, self._line, self._lines, self._segment, self._point)
        drawn = self._random.choice(kinds)() if self._segments else self._area()
        corners = [(x, y) for x, y in shapely.get_coordinates(drawn).tolist()]
        if len(self._segments) < self._most_segments:
            self._segments += [(a, b) for a, b in combinations(corners, 2) if a != b]
        return drawn

    def _point(self) -> Any:
        return Point(self._corner())

    def _segment(self) -> Any:
        return self._path(2)

    def _line(self) -> Any:
        return self._path(self._random.randint(5, 9))

    def _lines(self) -> Any:
        return MultiLineString([self._path(self._random.randint(2, 4)) for _ in range(3)])

    def _path(self, corners: int) -> LineString:
        while True:
            path = [self._corner() for _ in range(corners)]
            if self._random.random() < 0.1:
                path.append(path[0])
            if len(set(path)) > 1:
                return LineString(path)

    def _area(self) -> Any:
        while True:
            ring = {self._corner() for _ in range(self._random.randint(3, 5))}
            if len(ring) < 3:
                continue
            area = Polygon(self._random.sample(sorted(ring), len(ring)))
            if area.is_valid and area.area > 1e-6:
                return area

    def _corner(self) -> Corner:
        kind = self._random.random()
        if kind < 0.4 or not self._segments:
            return self._node()
        (ax, ay), (bx, by) = self._random.choice(self._segments)
        if kind < 0.9:
            share = self._random.choice(SHARES)
            return ax + (bx - ax) * share, ay + (by - ay) * share
        other = LineString(self._random.choice(self._segments))
        crossing = LineString([(ax, ay), (bx, by)]).intersection(other)
        return (crossing.x, crossing.y) if crossing.geom_type == "Point" else self._node()

    def _node(self) -> Corner:
        x, y = self._random.randrange(SIDE), self._random.randrange(SIDE)
        return x * self._step, y * self._step


CATEGORY_LISTS = st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=2, unique=True)


@st.composite
def near_degenerate_worlds(
    draw: st.DrawFn, max_entities: int = 8, *, moved: bool = True
) -> EntityTable:
    """A world of few such entities, their peids in any order."""
    pool = NearDegenerateGeometries(draw(st.integers(0, 2**32)))
    count = draw(st.integers(max_entities // 2, max_entities))
    east, north = draw(st.sampled_from(PLACES)) if moved else (0.0, 0.0)
    peids = draw(st.permutations(range(1, count + 1)))
    return table_of(
        (peid, tuple(draw(CATEGORY_LISTS)), _placed(pool.draw(), east, north)) for peid in peids
    )


def large_near_degenerate_world(seed: int, districts: int, of_each: int) -> EntityTable:
    """A world for engines that are slow to start: such entities in some districts."""
    dice = Random(seed)  # noqa: S311  no secret is made here
    shapes = []
    for place in range(districts):
        pool = NearDegenerateGeometries(seed + place)
        shapes += [_placed(pool.draw(), 2.0 * place, 0.0) for _ in range(of_each)]
    peids = dice.sample(range(10 * len(shapes)), len(shapes))
    return table_of(
        (peid, (dice.choice(CATEGORIES),), shape) for peid, shape in zip(peids, shapes, strict=True)
    )


def _placed(geometry: Any, east: float, north: float) -> Any:
    moved = affinity.translate(geometry, east, north)
    # Rounding can break a ring that was barely valid, or make one point of a line's corners.
    usable = moved.is_valid and (moved.area > 0 or geometry.area == 0)
    return moved if usable else geometry
