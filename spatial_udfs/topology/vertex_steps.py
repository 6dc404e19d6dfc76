"""Computations on many pairs in steps of bounded cost, so that a time limit holds inside them.

The cost of a pair is the product of the vertices of its two geometries: what GEOS does at most
for a distance or a matrix without an index. Measured with GEOS 3.14: up to 17 ns a unit for a
distance (two rings with a constant gap), up to 3 ns for a matrix (two areas whose borders cross
at every vertex).

For the distance of two geometries with very many vertices GEOS compares every segment of one with
every segment of the other, which takes minutes for two rings of 100,000 vertices. Here both are cut
into short runs of segments. Boxes tell which runs can be nearest, and GEOS measures those. The
smallest of all distances between segments is the same number, bit for bit, because GEOS measures
each pair of segments in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries
from spatial_udfs.resolution_limits import ResolutionLimits

Costs: TypeAlias = NDArray[np.int64]

# A step of matrices takes up to 0.3 s, one of distances up to 0.07 s.
RELATE_STEP_COST: Final = 100_000_000
DISTANCE_STEP_COST: Final = 4_000_000
# shapely.relate holds the interpreter's lock: small steps keep other threads going.
RELATE_STEP: Final = 1_000
DISTANCE_STEP: Final = 20_000


def steps_by_cost(costs: Costs, most_cost: int, most_pairs: int) -> Iterator[slice]:
    """Cut pairs into runs of at most ``most_cost``; a pair that costs more stands alone."""
    ends = np.cumsum(costs)
    start, count = 0, len(costs)
    while start < count:
        done = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, done + most_cost, side="right"))
        stop = max(start + 1, min(stop, start + most_pairs))
        yield slice(start, stop)
        start = stop


def vertex_products(first: NDArray[np.int32], second: NDArray[np.int32]) -> Costs:
    """Return the cost of each pair from the numbers of vertices."""
    return first.astype(np.int64) * second


def relate_in_steps(
    first: Geometries, second: Geometries, costs: Costs, limits: ResolutionLimits
) -> Geometries:
    """Return the matrices of all pairs, and look at the clock between steps."""
    matrices = np.empty(len(first), dtype=object)
    for step in steps_by_cost(costs, RELATE_STEP_COST, RELATE_STEP):
        matrices[step] = shapely.relate(first[step], second[step])
        limits.check_time()
    return matrices


def distances_in_steps(
    first: Geometries, second: Geometries, limits: ResolutionLimits
) -> NDArray[np.float64]:
    """Return the distances of all pairs, as GEOS computes them, and look at the clock often."""
    sizes = shapely.get_num_coordinates(first), shapely.get_num_coordinates(second)
    costs = vertex_products(*sizes)
    distances = np.empty(len(first))
    for step in steps_by_cost(costs, DISTANCE_STEP_COST, DISTANCE_STEP):
        if costs[step.start] > DISTANCE_STEP_COST:
            distances[step] = heavy_distance(first[step.start], second[step.start], limits)
        else:
            distances[step] = shapely.distance(first[step], second[step])
        limits.check_time()
    return distances


# Segments of a run, and runs of a geometry: of larger ones the runs are longer.
RUN: Final = 64
MOST_RUNS: Final = 2_048
# Pairs of segments that are measured between two looks at the clock: up to 0.07 s.
MEASURED_AT_ONCE: Final = 4_000_000
# Bounds of boxes are rounded: runs that seem a little further than the nearest are measured too.
_SLACK: Final = 2.0**-40

_POINT: Final = 0
_POLYGONS: Final = (3, 6)
Boxes = NDArray[np.float64]


def heavy_distance(first: Any, second: Any, limits: ResolutionLimits) -> float:
    """Return what ``shapely.distance(first, second)`` returns."""
    if _has_start_inside(first, second) or _has_start_inside(second, first):
        return 0.0
    limits.check_time()
    runs = _runs(first)
    limits.check_time()
    others = _runs(second)
    limits.check_time()
    sizes = shapely.get_num_coordinates(runs).max() * shapely.get_num_coordinates(others).max()
    at_once = max(1, MEASURED_AT_ONCE // int(sizes))
    boxes, other_boxes = shapely.bounds(runs), shapely.bounds(others)
    margin = _SLACK * float(max(np.abs(boxes).max(), np.abs(other_boxes).max()))
    at_least = _lower_bounds(boxes, other_boxes)
    nearest = np.inf
    # Row by row, the most promising first: a small distance soon rules out most of the rest.
    for row in np.argsort(at_least.min(axis=1)):
        limits.check_time()
        bounds = at_least[row]
        close = np.flatnonzero(bounds <= nearest + margin + nearest * _SLACK)
        close = close[np.argsort(bounds[close])]
        for start in range(0, len(close), at_once):
            step = close[start : start + at_once]
            if bounds[step[0]] > nearest + margin + nearest * _SLACK:
                break
            nearest = min(nearest, float(shapely.distance(runs[row], others[step]).min()))
            limits.check_time()
        if nearest == 0.0:
            break
    return nearest


def _has_start_inside(geometry: Any, area: Any) -> bool:
    """Return whether a part of the geometry begins in an area: GEOS calls that a distance of 0."""
    if shapely.get_type_id(area) not in _POLYGONS:
        return False
    parts = shapely.get_parts(geometry)
    polygons = np.isin(shapely.get_type_id(parts), _POLYGONS)
    parts[polygons] = shapely.get_exterior_ring(parts[polygons])
    coordinates, places = shapely.get_coordinates(parts, return_index=True)
    starts = coordinates[np.flatnonzero(np.diff(places, prepend=-1))]
    prepared = shapely.force_2d(area)
    shapely.prepare(prepared)
    return bool(shapely.intersects_xy(prepared, starts[:, 0], starts[:, 1]).any())


def _runs(geometry: Any) -> Geometries:
    """Cut the geometry into at most about MOST_RUNS pieces: lines, and groups of points."""
    parts = shapely.get_parts(geometry)
    types = shapely.get_type_id(parts)
    polygons, points = np.isin(types, _POLYGONS), types == _POINT
    lines = np.concatenate([parts[~polygons & ~points], shapely.get_rings(parts[polygons])])
    length = max(RUN, -(-int(shapely.get_num_coordinates(geometry)) // MOST_RUNS))
    runs = [
        *_grouped(_pieces(lines, length), shapely.multilinestrings),
        *_grouped(parts[points], shapely.multipoints),
    ]
    return np.array(runs, dtype=object)


def _pieces(lines: Geometries, length: int) -> Geometries:
    """Cut the lines into pieces of ``length`` segments; the end of one is the start of the next.

    Without a loop in Python, which takes seconds for an area of 100,000 parts.
    """
    if not len(lines):
        return lines
    corners, line = shapely.get_coordinates(lines, return_index=True)
    counts = np.bincount(line, minlength=len(lines))
    place = np.arange(len(line)) - (np.cumsum(counts) - counts)[line]
    is_last = place == counts[line] - 1
    begins = (place % length == 0) & ~is_last
    piece = np.cumsum(begins) - 1
    # A corner that begins a piece within a line stands twice: at the end of the one before too.
    is_shared = begins & (place > 0)
    twice = np.repeat(np.arange(len(line)), 1 + is_shared)
    of_piece = piece[twice]
    of_piece[np.flatnonzero(is_shared) + np.arange(np.count_nonzero(is_shared))] -= 1
    pieces: Any = shapely.linestrings(corners[twice], indices=of_piece)
    return np.asarray(pieces)


def _grouped(pieces: Geometries, collect: Callable[..., Any]) -> Geometries:
    """Return the pieces, several of them in one where there are too many."""
    if len(pieces) <= MOST_RUNS:
        return pieces
    groups: Geometries = collect(pieces, indices=np.arange(len(pieces)) * MOST_RUNS // len(pieces))
    return groups


def _lower_bounds(boxes: Boxes, others: Boxes) -> NDArray[np.float64]:
    west, south, east, north = (side[:, None] for side in boxes.T)
    o_west, o_south, o_east, o_north = others.T
    gap_x = np.maximum(np.maximum(o_west - east, west - o_east), 0)
    gap_y = np.maximum(np.maximum(o_south - north, south - o_north), 0)
    bounds: NDArray[np.float64] = np.hypot(gap_x, gap_y)
    return bounds
