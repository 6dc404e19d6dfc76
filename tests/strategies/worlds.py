"""Random small worlds on an integer grid, where touching, equal and contained are frequent.

Strategies are made once: Hypothesis checks each new one, which takes longer than drawing from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import shapely
from hypothesis import strategies as st
from shapely import affinity
from shapely.geometry import LineString, MultiLineString, MultiPoint, MultiPolygon, Point, Polygon

from schemas.language.limits import MAX_PEID
from spatial_udfs.entity_table import EntityTable

CATEGORIES = (
    "road",
    "road/major",
    "road/major/motorway",
    "road/minor",
    "zone",
    "zone/old town",
    "transport/parking",
)
# Exact binary fractions keep touching exact; the others make every coordinate a rounded one.
EXACT_PLACEMENTS = ((1.0, 0.0, 0.0), (1.0, 390_000.0, 5_800_000.0))
PLACEMENTS = (*EXACT_PLACEMENTS, (0.1, 0.0, 0.0), (1 / 3, 7e5, 5e6))


def table_of(rows: Iterable[tuple[int, tuple[str, ...], Any]], version: int = 1) -> EntityTable:
    """A table of (peid, categories, geometry), in any order."""
    ordered = sorted(rows, key=lambda row: row[0])
    names = sorted({category for _, categories, _ in ordered for category in categories})
    codes = [names.index(category) for _, categories, _ in ordered for category in categories]
    lengths = [len(categories) for _, categories, _ in ordered]
    geometries = np.empty(len(ordered), dtype=object)
    geometries[:] = [geometry for _, _, geometry in ordered]
    return EntityTable(
        version=version,
        srid=25833,
        peids=np.array([peid for peid, _, _ in ordered], np.int64),
        geometries=geometries,
        names=np.full(len(ordered), None, dtype=object),
        category_names=tuple(names),
        category_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        category_codes=np.array(codes, np.int32),
    )


@cache
def _coordinates(size: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(0, size), st.integers(0, size))


@cache
def points(size: int) -> st.SearchStrategy[Any]:
    return _coordinates(size).map(Point)


@cache
def multi_points(size: int) -> st.SearchStrategy[Any]:
    return st.lists(_coordinates(size), min_size=1, max_size=4, unique=True).map(MultiPoint)


@cache
def lines(size: int) -> st.SearchStrategy[Any]:
    """Open, closed, self-touching and self-crossing lines."""
    path = st.lists(_coordinates(size), min_size=2, max_size=6)
    closed = path.map(lambda corners: [*corners, corners[0]])
    return st.one_of(path, path, closed).filter(lambda p: len(set(p)) > 1).map(LineString)


@cache
def segments(size: int) -> st.SearchStrategy[Any]:
    """Lines of two points, as most streets between two corners are."""
    ends = st.lists(_coordinates(size), min_size=2, max_size=2, unique=True)
    return ends.map(LineString)


@cache
def multi_lines(size: int) -> st.SearchStrategy[Any]:
    return st.lists(lines(size), min_size=1, max_size=3).map(MultiLineString)


@cache
def rectangles(size: int) -> st.SearchStrategy[Any]:
    side = st.lists(st.integers(0, size), min_size=2, max_size=2, unique=True).map(sorted)
    return st.tuples(side, side).map(
        lambda sides: shapely.box(sides[0][0], sides[1][0], sides[0][1], sides[1][1])
    )


@cache
def simple_areas(size: int) -> st.SearchStrategy[Any]:
    """Triangles, quadrilaterals and pentagons, also concave ones."""
    ring = st.lists(_coordinates(size), min_size=3, max_size=5, unique=True)
    return ring.map(Polygon).filter(lambda area: area.is_valid and area.area > 0)


@cache
def areas_with_holes(size: int) -> st.SearchStrategy[Any]:
    """What is left of an area after cutting a smaller one out; may fall into parts."""
    whole = rectangles(size).filter(lambda area: area.area > 3)
    return (
        st.tuples(whole, st.one_of(rectangles(size), simple_areas(size)))
        .map(lambda pair: pair[0].difference(pair[1]))
        .filter(_is_usable_area)
    )


@cache
def multi_areas(size: int) -> st.SearchStrategy[Any]:
    parts = st.lists(st.one_of(rectangles(size), simple_areas(size)), min_size=2, max_size=3)
    return parts.map(MultiPolygon).filter(lambda area: area.is_valid)


def _is_usable_area(area: Any) -> bool:
    return not area.is_empty and area.is_valid and area.geom_type in ("Polygon", "MultiPolygon")


@cache
def geometries(size: int) -> st.SearchStrategy[Any]:
    return st.one_of(
        points(size),
        multi_points(size),
        segments(size),
        lines(size),
        multi_lines(size),
        rectangles(size),
        simple_areas(size),
        areas_with_holes(size),
        multi_areas(size),
    )


CATEGORY_LISTS = st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=3, unique=True)
PEIDS = st.one_of(st.integers(0, 40), st.integers(0, MAX_PEID))


@st.composite
def worlds(
    draw: st.DrawFn,
    max_entities: int = 12,
    min_entities: int = 1,
    placements: tuple[tuple[float, float, float], ...] = PLACEMENTS,
) -> EntityTable:
    """A world of few entities; some have the geometry of another one."""
    size = draw(st.sampled_from((3, 6)))
    drawn = draw(st.lists(geometries(size), min_size=min_entities, max_size=max_entities))
    copies = draw(st.lists(st.sampled_from(drawn), max_size=2)) if drawn else []
    scale, east, north = draw(st.sampled_from(placements))
    placed = [_place(geometry, scale, east, north) for geometry in (*drawn, *copies)]
    peids = draw(st.lists(PEIDS, min_size=len(placed), max_size=len(placed), unique=True))
    return table_of(
        (peid, tuple(draw(CATEGORY_LISTS)), geometry)
        for peid, geometry in zip(peids, placed, strict=True)
    )


def _place(geometry: Any, scale: float, east: float, north: float) -> Any:
    moved = affinity.affine_transform(geometry, (scale, 0.0, 0.0, scale, east, north))
    # Rounding of a scaled corner can break a ring that was barely valid: keep the drawn one.
    return moved if moved.is_valid else affinity.translate(geometry, east, north)
