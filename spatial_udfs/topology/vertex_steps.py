"""Computations on many pairs in steps of bounded cost, so that a time limit holds inside them.

The cost of a pair is the product of the vertices of its two geometries: what GEOS does at most
for a distance or a matrix without an index. Measured with GEOS 3.14: up to 17 ns a unit for a
distance (two rings with a constant gap), up to 3 ns for a matrix (two areas whose borders cross
at every vertex).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.topology.heavy_distance import heavy_distance

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
