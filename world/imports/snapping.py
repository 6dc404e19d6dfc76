"""Inserts missing vertices, so that entities that nearly meet share a vertex and touch.

A vertex of one entity is missing in another one if it lies within the given distance of an edge of
it, and is no vertex of it. It is inserted into the nearest edge. Before that, vertices of different
entities that are within the distance of each other become one: all entities that have one of them
get the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Bools, Floats, Geometries, Int64s
from world.long_work import Progress


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


# LineString, Polygon, MultiLineString, MultiPolygon: what has edges.
WITH_EDGES: Final = (1, 3, 5, 6)
# An edge that got a vertex is bent by up to the distance, and may come near another vertex.
ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class SnapResult:
    """The geometries with inserted vertices, and how many were inserted and joined with another.

    ``changed`` has the positions of the geometries that got vertices, ``refused`` those that stay
    as they were, because a vertex would have made them invalid.
    """

    geometries: Geometries
    inserted: int
    joined: int
    changed: Int64s
    refused: Int64s


def snap(geometries: Geometries, distance: float, tell: Progress) -> SnapResult:
    """Return the geometries with every missing vertex within ``distance`` metres inserted."""
    inserted = 0
    result, joined, changed, refused = _with_joined_vertices(geometries, distance)
    for number in range(1, ROUNDS + 1):
        tell("snapping", number, ROUNDS)
        edges = _Edges.of(result, ~refused)
        points, at, bent = _missing(result, edges, distance)
        if not len(points):
            break
        for kind in WITH_EDGES:
            of_kind = edges.kinds[at] == kind
            rows, found = edges.with_points(result, kind, at[of_kind], points[of_kind])
            valid = shapely.is_valid(found)
            result[rows[valid]] = found[valid]
            changed[rows[valid]] = True
            refused[rows[~valid]] = True
        inserted += int((~refused[bent]).sum())
    return SnapResult(result, inserted, joined, np.flatnonzero(changed), np.flatnonzero(refused))


def _with_joined_vertices(
    geometries: Geometries, distance: float
) -> tuple[Geometries, int, Bools, Bools]:
    """Return the geometries with nearly equal vertices of different entities made equal.

    Also returns how many vertices moved, which geometries changed, and which stay as they were,
    because they would be invalid.
    """
    result = geometries.copy()
    changed, refused = (np.zeros(len(result), np.bool_) for _ in range(2))
    vertices = Vertices.of(geometries)
    target = vertices.joined(distance)
    moved = target[vertices.of_point] != vertices.of_point
    rows = np.unique(vertices.owners[moved])
    if not len(rows):
        return result, 0, changed, refused
    mine = np.isin(vertices.owners, rows)
    places = vertices.places[target[vertices.of_point[mine]]]
    found = shapely.set_coordinates(geometries[rows].copy(), places)
    valid = shapely.is_valid(found)
    result[rows[valid]] = found[valid]
    changed[rows[valid]] = True
    refused[rows[~valid]] = True
    count = int((target != np.arange(len(target))).sum())
    return result, count, changed, refused


@dataclass(frozen=True, slots=True)
class _Edges:
    """All edges, entity by entity of each kind: two ends each, the entity and its kind."""

    ends: Floats
    owners: Int64s
    kinds: Int64s

    @classmethod
    def of(cls, geometries: Geometries, usable: NDArray[np.bool_]) -> _Edges:
        """Return the edges of the usable geometries."""
        types = shapely.get_type_id(geometries)
        ends, owners = [np.empty((0, 2, 2))], [np.empty(0, np.int64)]
        kinds = [np.empty(0, np.int64)]
        for kind in WITH_EDGES:
            rows = np.flatnonzero((types == kind) & usable)
            if not len(rows):
                continue
            _, points, offsets = shapely.to_ragged_array(geometries[rows])
            of_point = shapely.get_coordinates(geometries[rows], return_index=True)[1]
            # The last point of each line or ring begins no edge.
            begins = np.ones(len(points), np.bool_)
            begins[offsets[0][1:] - 1] = False
            first = np.flatnonzero(begins)
            ends.append(np.stack([points[first], points[first + 1]], axis=1))
            owners.append(rows[of_point[first]])
            kinds.append(np.full(len(first), kind))
        return cls(np.concatenate(ends), np.concatenate(owners), np.concatenate(kinds))

    def with_points(
        self, geometries: Geometries, kind: int, at: Int64s, points: Floats
    ) -> tuple[Int64s, Geometries]:
        """Return the entities of a kind that get points, and their new geometries.

        ``at`` is the edge of each point; the points of an edge are in their order along it.
        """
        rows = np.unique(self.owners[at])
        if not len(rows):
            return rows, np.empty(0, object)
        mine = (self.kinds == kind) & np.isin(self.owners, rows)
        _, old, offsets = shapely.to_ragged_array(geometries[rows])
        # The edges of these entities alone, in the order of their points.
        begins = np.ones(len(old), np.bool_)
        begins[offsets[0][1:] - 1] = False
        places = np.full(len(self.owners), -1, np.int64)
        places[mine] = np.flatnonzero(begins)
        after = places[at] + 1
        new = np.insert(old, after, points, axis=0)
        shifted = offsets[0] + np.searchsorted(np.sort(after), offsets[0], side="left")
        found: Any = shapely.from_ragged_array(
            shapely.GeometryType(kind), new, (shifted, *offsets[1:])
        )
        return rows, found


def _missing(
    geometries: Geometries, edges: _Edges, distance: float
) -> tuple[Floats, Int64s, Int64s]:
    """Return each missing vertex, its edge and its entity, in the order of edges and along them."""
    vertices = Vertices.of(geometries)
    places = vertices.places
    lines: Any = shapely.linestrings(edges.ends)
    tree = shapely.STRtree(lines)
    vertex, edge = tree.query(shapely.points(places), predicate="dwithin", distance=distance)
    # An entity does not lack a vertex that it has somewhere.
    pairs = edges.owners[edge] * len(places) + vertex
    missing = ~np.isin(pairs, vertices.owned())
    vertex, edge, pairs = vertex[missing], edge[missing], pairs[missing]
    share, gap = _along(edges.ends[edge], places[vertex])
    # Of the edges of an entity the nearest one gets the vertex; of equal ones the first.
    order = np.lexsort((edge, gap, pairs))
    nearest = order[np.unique(pairs[order], return_index=True)[1]]
    vertex, edge, share = vertex[nearest], edge[nearest], share[nearest]
    # Along the edge; vertices at one place of it in a fixed order, the same in both directions.
    order = np.lexsort((vertex, share, edge))
    return places[vertex[order]], edge[order], edges.owners[edge[order]]


def _along(ends: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Return where on its edge each point lies, from 0 to 1, and its distance from the edge."""
    start, end = ends[:, 0], ends[:, 1]
    way = end - start
    length = np.maximum((way**2).sum(axis=1), np.finfo(float).tiny)
    share = np.clip(((points - start) * way).sum(axis=1) / length, 0, 1)
    gap = np.hypot(*(points - start - share[:, None] * way).T)
    return share, gap
