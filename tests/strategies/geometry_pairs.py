"""Many pairs of real geometries that meet in every way, on a grid so small that they must.

All coordinates are small integers: every touch is exact, and no rounding hides or makes one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import LineString, MultiLineString, MultiPoint, MultiPolygon, Polygon, box
from shapely.geometry.base import BaseGeometry

from schemas.topology.relations import Shape

_SIDE = 5
# Drawn too seldom: pairs of these meet in ways that take some planning.
_RARE = (
    # The ends of each lie inside the other, and the insides do not meet.
    "LINESTRING (0 0, 4 0)",
    "LINESTRING (1 0, 1 1, -1 1, 0 0, 0 -2, 5 -2, 4 0, 5 1, 3 1, 3 0)",
    # The same points, with different ends.
    "MULTILINESTRING ((0 0, 4 0, 4 4, 0 4, 0 0), (0 0, 4 0))",
    "MULTILINESTRING ((0 0, 4 0, 4 4, 0 4, 0 0), (4 4, 0 4))",
    # An area, its whole border, and that with a ring or a line inside.
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
    "LINESTRING (0 0, 4 0, 4 4, 0 4, 0 0)",
    "MULTILINESTRING ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 1 2, 1 1))",
    "MULTILINESTRING ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 2))",
)


@dataclass(frozen=True, slots=True, eq=False)
class GeometryPairs:
    """Parallel arrays: pair by pair the geometries, their shapes and their DE-9IM matrix."""

    references: NDArray[Any]
    entities: NDArray[Any]
    matrices: NDArray[Any]
    reference_shapes: list[Shape]
    entity_shapes: list[Shape]


@cache
def geometry_pairs(seed: int, of_each_kind: int) -> GeometryPairs:
    """All pairs out of points, lines and areas, as many of each kind as asked for."""
    pool = GeometryPool(seed)
    areas = [pool.area() for _ in range(of_each_kind)]
    lines = [pool.line(areas) for _ in range(of_each_kind)]
    points = [pool.points() for _ in range(of_each_kind // 2)]
    rare = [shapely.from_wkt(text) for text in _RARE]
    geometries = np.array([*points, *lines, *areas, *rare], dtype=object)
    shapes = [shape_of(geometry) for geometry in geometries]
    first, second = (side.ravel() for side in np.indices((len(geometries),) * 2))
    references, entities = geometries[first], geometries[second]
    return GeometryPairs(
        references=references,
        entities=entities,
        matrices=shapely.relate(references, entities),
        reference_shapes=[shapes[place] for place in first],
        entity_shapes=[shapes[place] for place in second],
    )


def shape_of(geometry: BaseGeometry) -> Shape:
    """The shape by dimension and boundary."""
    match shapely.get_dimensions(geometry):
        case 0:
            return Shape.POINT
        case 1:
            return Shape.CLOSED_LINE if geometry.boundary.is_empty else Shape.LINE
        case _:
            return Shape.AREA


class GeometryPool:
    """Draws geometries; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  no secret is made here

    def points(self) -> BaseGeometry:
        return MultiPoint([self._node() for _ in range(self._random.randint(1, 3))])

    def line(self, areas: list[BaseGeometry]) -> BaseGeometry:
        """Open, closed, crossing itself, running over itself, along the border of an area."""
        side = self._random.choice([2, 3, _SIDE])
        parts: list[LineString] = []
        if self._random.random() < 0.3:
            parts.extend(shapely.get_parts(self._random.choice(areas[:10]).boundary))
        while not parts or self._random.random() < 0.4:
            nodes = [self._node(side) for _ in range(self._random.randint(2, 4))]
            if self._random.random() < 0.4:
                nodes.append(nodes[0])
            if len(set(nodes)) > 1:
                parts.append(LineString(nodes))
        if self._random.random() < 0.3:
            again = self._random.choice(parts).coords
            parts.append(LineString(again[: self._random.randint(2, len(again))]))
        self._random.shuffle(parts)
        return parts[0] if len(parts) == 1 else MultiLineString(parts)

    def area(self) -> BaseGeometry:
        if self._random.random() < 0.4:
            return self._nested_rings()
        pieces = [self._piece() for _ in range(self._random.randint(1, 4))]
        area = shapely.union_all(pieces)
        return area if area.geom_type in ("Polygon", "MultiPolygon") else pieces[0]

    def _piece(self) -> BaseGeometry:
        x, y = self._node()
        return self._random.choice(
            [
                box(x, y, x + 1, y + 1),
                box(x, y, x + 2, y + 2),
                Polygon([(x, y), (x + 2, y), (x, y + 2)]),
                box(x, y, x + 3, y + 3).difference(box(x + 1, y + 1, x + 2, y + 2)),
            ]
        )

    def _nested_rings(self) -> BaseGeometry:
        """Squares around one centre, inside and outside by turns: holes, and islands in holes."""
        radii = sorted(self._random.sample(range(1, 7), self._random.choice([1, 2, 3, 4])))
        outer_first = [box(-r, -r, r, r) for r in reversed(radii)]
        rings: list[Polygon] = [
            Polygon(shell.exterior, [hole.exterior] if hole else None)
            for shell, hole in zip(outer_first[::2], [*outer_first[1::2], None], strict=False)
        ]
        return rings[0] if len(rings) == 1 else MultiPolygon(rings)

    def _node(self, side: int = _SIDE) -> tuple[int, int]:
        return self._random.randrange(side), self._random.randrange(side)
