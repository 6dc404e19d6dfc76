"""DE-9IM matrices of pairs whose boxes meet, with as few full computations as possible.

The matrix of a pair is GEOS' relate with the entity of the lower peid first, transposed where the
reference has the higher one (docs/decisions/0112). GEOS may give another matrix in the other
order, so a short cut is taken only where it provably gives the same:

- a prepared copy of the first geometry: the same steps on an index that is kept;
- no segment of one meets a segment of the other: then point locations alone make the matrix,
  and these do not depend on the order. So it is with everything properly inside an area, with
  everything apart from it, and with points.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
import shapely

from schemas.topology.relations import SHAPES
from spatial_udfs.entity_table import Bools, Geometries, Positions
from spatial_udfs.position_sets import is_in
from spatial_udfs.resolution_limits import Relate, ResolutionLimits
from spatial_udfs.topology.line_ends import SHARED_END_MATRIX, SharedLineEnds, StraightSegments
from spatial_udfs.topology.pair_kinds import Kinds, PairKinds, shape_pairs
from spatial_udfs.topology.shapes import ShapeCodes
from spatial_udfs.topology.vertex_steps import Costs, relate_in_steps, vertex_products

# Below this many coordinates a prepared copy costs more than it saves.
LARGE_AREA_COORDINATES: Final = 12
# Prepared areas are dropped, least recently used first, beyond this many coordinates in all.
MAX_PREPARED_COORDINATES: Final = 200_000

_POINT: Final = 0
_EXTERIOR_INTERIOR: Final = 6
_AREA: Final = len(SHAPES) - 1
# Matrices of (area, entity in its interior, away from its boundary), by the entity's shape.
INNER_MATRICES: Final = np.array(
    [f"{shape.dimension}{shape.boundary}2FF1FF2" for shape in SHAPES], dtype=object
)


class PairMatrices:
    """Computes kinds. Not for several threads at once: prepared geometry builds up lazily."""

    def __init__(self, geometries: Geometries, shapes: ShapeCodes, kinds: PairKinds) -> None:
        """Find the areas that are worth preparing. The geometries stand by ascending peid."""
        self._geometries = geometries
        self._shapes = shapes
        self._names = kinds
        areas = np.full(len(SHAPES), _AREA, np.uint8)
        of_each_shape = np.arange(len(SHAPES), dtype=np.uint8)
        self._inner_kinds = kinds.of(INNER_MATRICES, shape_pairs(areas, of_each_shape))
        self._line_ends = SharedLineEnds(geometries)
        self._segments = StraightSegments(geometries)
        self._sizes = shapely.get_num_coordinates(geometries)
        self._large = (shapes == _AREA) & (self._sizes >= LARGE_AREA_COORDINATES)
        self._prepared: OrderedDict[int, Any] = OrderedDict()
        self.prepared_coordinates = 0

    def kinds(self, references: Positions, entities: Positions, limits: ResolutionLimits) -> Kinds:
        """Return the kind of each pair (reference, entity)."""
        lower, higher = np.minimum(references, entities), np.maximum(references, entities)
        result, first = self._kinds_of(lower, higher, limits)
        turned = np.flatnonzero(first != references)
        if len(turned):
            result[turned] = self._names.transposed(result[turned])
        return result

    def costs(self, references: Positions, entities: Positions) -> Costs:
        """Return what the matrix of each pair may cost, in pairs of vertices."""
        return vertex_products(self._sizes[references], self._sizes[entities])

    def matrix_apart(
        self, reference: int, entity: int, relate: Relate, limits: ResolutionLimits
    ) -> Any:
        """Return the matrix of one pair, lower peid first, by ``relate``; any thread may ask."""
        lower, higher = np.array([sorted((reference, entity))], np.int32).T
        first, second = self._geometries[lower], self._geometries[higher]
        matrices = np.array([relate(first[0], second[0], limits.seconds_left())], dtype=object)

        def covers(geometry: Any, points: Any) -> bool:
            # This can take as long as the matrix.
            return relate(geometry, points, limits.seconds_left())[_EXTERIOR_INTERIOR] == "F"

        self._line_ends.repair(matrices, first, second, lower, higher, covers)
        return matrices[0]

    def kind_of_matrix(self, matrix: Any, reference: int, entity: int) -> Kinds:
        """Return the kind of one pair whose matrix ``matrix_apart`` gave."""
        lower, higher = np.array([sorted((reference, entity))], np.int32).T
        matrices = np.array([matrix], dtype=object)
        kinds = self._names.of(matrices, shape_pairs(self._shapes[lower], self._shapes[higher]))
        return kinds if reference < entity else self._names.transposed(kinds)

    def forget(self) -> None:
        """Drop the prepared areas."""
        self._prepared.clear()
        self.prepared_coordinates = 0

    def _kinds_of(
        self, lower: Positions, higher: Positions, limits: ResolutionLimits
    ) -> tuple[Kinds, Positions]:
        """Return kinds, and the position of the geometry that comes first in each.

        Most pairs of a large area are things well inside it. Their matrix follows from their
        shape, and the prepared test for that costs a tenth of a matrix.
        """
        large_lower, large_higher = self._large[lower], self._large[higher]
        large = large_lower | large_higher
        if not large.any():
            geometries, others = self._geometries[lower], self._geometries[higher]
            return self._related(geometries, others, lower, higher, limits), lower
        # Of two large areas the larger one is prepared: one copy serves more pairs.
        is_higher = large_higher & (~large_lower | (self._sizes[higher] > self._sizes[lower]))
        first, second = np.where(is_higher, higher, lower), np.where(is_higher, lower, higher)
        geometries, others = self._with_prepared(first, large), self._geometries[second]
        inside = large
        if large.all():
            inside = shapely.contains_properly(geometries, others)
        else:
            inside[large] = shapely.contains_properly(geometries[large], others[large])
        limits.check_time()
        result: Kinds = self._inner_kinds[self._shapes[second]]
        rest = np.flatnonzero(~inside)
        turned = rest[is_higher[rest] & (self._shapes[second[rest]] != _POINT)]
        if len(turned):
            # Where segments meet, the order counts, and the prepared area is of no use.
            meet = shapely.intersects(geometries[turned], others[turned])
            apart, turned = turned[~meet], turned[meet]
            result[apart] = shape_pairs(self._shapes[first[apart]], self._shapes[second[apart]])
            rest = rest[~is_in(rest, apart)] if len(apart) else rest
            first[turned], second[turned] = lower[turned], higher[turned]
            geometries[turned], others[turned] = others[turned], self._geometries[higher[turned]]
        result[rest] = self._related(
            geometries[rest], others[rest], first[rest], second[rest], limits
        )
        return result, first

    def _with_prepared(self, positions: Positions, large: Bools) -> Geometries:
        """Return the geometries at the positions, prepared copies in place of the large areas."""
        if large.all() and (positions == positions[0]).all():
            # One zone for all pairs, as in most first stages.
            geometries = np.empty(len(positions), dtype=object)
            geometries.fill(self._prepared_copy(int(positions[0])))
            return geometries
        geometries = self._geometries[positions]
        areas, places = np.unique(positions[large], return_inverse=True)
        copies = np.empty(len(areas), dtype=object)
        copies[:] = [self._prepared_copy(int(area)) for area in areas]
        geometries[large] = copies[places]
        return geometries

    def _related(
        self,
        geometries: Geometries,
        others: Geometries,
        first: Positions,
        second: Positions,
        limits: ResolutionLimits,
    ) -> Kinds:
        matrices = np.full(len(first), SHARED_END_MATRIX, dtype=object)
        rest = np.flatnonzero(~self._segments.share_an_end_only(first, second))
        costs = vertex_products(self._sizes[first[rest]], self._sizes[second[rest]])
        matrices[rest] = relate_in_steps(geometries[rest], others[rest], costs, limits)
        self._line_ends.repair(matrices, geometries, others, first, second)
        return self._names.of(matrices, shape_pairs(self._shapes[first], self._shapes[second]))

    def _prepared_copy(self, position: int) -> Any:
        """Return a prepared copy of the area: the table's own geometry may be in use elsewhere."""
        copy = self._prepared.get(position)
        if copy is not None:
            self._prepared.move_to_end(position)
            return copy
        # No relation looks at heights, and this is the quickest way to a new object.
        copy = shapely.force_2d(self._geometries[position])
        shapely.prepare(copy)
        self._prepared[position] = copy
        self.prepared_coordinates += int(self._sizes[position])
        while self.prepared_coordinates > MAX_PREPARED_COORDINATES and len(self._prepared) > 1:
            dropped, _ = self._prepared.popitem(last=False)
            self.prepared_coordinates -= int(self._sizes[dropped])
        return copy
