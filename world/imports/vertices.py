"""The distinct vertices of many geometries, and which of them are nearly equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries, Int64s


@dataclass(frozen=True, slots=True)
class Vertices:
    """The places of distinct vertices; owner and vertex of each point of all geometries."""

    places: NDArray[np.float64]
    owners: Int64s
    of_point: Int64s

    @classmethod
    def of(cls, geometries: Geometries) -> Vertices:
        """Return the vertices of geometries in two dimensions."""
        coordinates, owners = shapely.get_coordinates(geometries, return_index=True)
        distinct, of_point = np.unique(coordinates.view(np.complex128).ravel(), return_inverse=True)
        return cls(np.column_stack([distinct.real, distinct.imag]), owners, of_point)

    def owned(self) -> Int64s:
        """Return one number for each entity and vertex that it has: entity * count + vertex."""
        pairs: Int64s = np.unique(self.owners * len(self.places) + self.of_point)
        return pairs

    def joined(self, distance: float) -> Int64s:
        """Return for each vertex the vertex that it becomes, mostly itself.

        Vertices within the distance of each other become the first of them. A chain of such
        vertices stays as it is if one entity has two of them: its shape would lose an edge.
        """
        points: Any = shapely.points(self.places)
        count = len(self.places)
        one, other = shapely.STRtree(points).query(points, predicate="dwithin", distance=distance)
        near = one < other
        first = _smallest_reachable(count, one[near], other[near])
        owned = self.owned()
        entity, vertex = np.divmod(owned, max(count, 1))
        chains, counts = np.unique(entity * count + first[vertex], return_counts=True)
        lost = np.isin(first, chains[counts > 1] % max(count, 1))
        return np.where(lost, np.arange(count), first)


def _smallest_reachable(count: int, one: Int64s, other: Int64s) -> Int64s:
    """Return the smallest number that each number is connected with."""
    first = np.arange(count)
    while True:
        before = first.copy()
        smaller = np.minimum(first[one], first[other])
        np.minimum.at(first, one, smaller)
        np.minimum.at(first, other, smaller)
        if np.array_equal(before, first):
            return first
