"""DE-9IM matrices of pairs whose boxes meet, with as few full computations as possible."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
import shapely

from spatial_udfs.entity_table import Geometries, Positions
from spatial_udfs.pair_kinds import Bools, Kinds, PairKinds, shape_pairs
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.shapes import SHAPES, ShapeCodes
from spatial_udfs.shared_line_ends import SharedLineEnds
from spatial_udfs.straight_segments import SHARED_END_MATRIX, StraightSegments

# Below this many coordinates a prepared copy costs more than it saves.
LARGE_AREA_COORDINATES: Final = 12
# Prepared areas are dropped, least recently used first, beyond this many coordinates in all.
MAX_PREPARED_COORDINATES: Final = 200_000
# shapely.relate holds the interpreter's lock: small steps keep other threads going.
RELATE_STEP: Final = 1_000

_AREA: Final = len(SHAPES) - 1
# Matrices of (area, entity in its interior, away from its boundary), by the entity's shape.
INNER_MATRICES: Final = np.array(
    [f"{shape.dimension}{shape.boundary}2FF1FF2" for shape in SHAPES], dtype=object
)


class PairMatrices:
    """Computes kinds. Not for several threads at once: prepared geometry builds up lazily."""

    def __init__(self, geometries: Geometries, shapes: ShapeCodes, kinds: PairKinds) -> None:
        """Find out which areas are worth preparing."""
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
        """The kind of each pair (reference, entity)."""
        large_reference, large_entity = self._large[references], self._large[entities]
        if not large_entity.any():
            return self._kinds_of(references, entities, large_reference, limits)
        # Of two large areas the larger one is prepared: one copy serves more pairs.
        turn = large_entity & (~large_reference | (self._sizes[entities] > self._sizes[references]))
        first = np.where(turn, entities, references)
        second = np.where(turn, references, entities)
        result = self._kinds_of(first, second, large_reference | large_entity, limits)
        result[turn] = self._names.transposed(result[turn])
        return result

    def forget(self) -> None:
        """Drop the prepared areas."""
        self._prepared.clear()
        self.prepared_coordinates = 0

    def _kinds_of(
        self, first: Positions, second: Positions, large: Bools, limits: ResolutionLimits
    ) -> Kinds:
        """Kinds of (first, second), where ``large`` tells that the first is a large area.

        Most pairs of a large area are things well inside it. Their matrix follows from their
        shape, and the prepared test for that costs a tenth of a matrix.
        """
        others = self._geometries[second]
        if not large.any():
            return self._related(self._geometries[first], others, first, second, limits)
        geometries = self._with_prepared(first, large)
        inside = large
        if large.all():
            inside = shapely.contains_properly(geometries, others)
        else:
            inside[large] = shapely.contains_properly(geometries[large], others[large])
        limits.check_time()
        result: Kinds = self._inner_kinds[self._shapes[second]]
        rest = np.flatnonzero(~inside)
        result[rest] = self._related(
            geometries[rest], others[rest], first[rest], second[rest], limits
        )
        return result

    def _with_prepared(self, positions: Positions, large: Bools) -> Geometries:
        """The geometries at the positions, prepared copies in place of the large areas."""
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
        for start in range(0, len(rest), RELATE_STEP):
            step = rest[start : start + RELATE_STEP]
            matrices[step] = shapely.relate(geometries[step], others[step])
            limits.check_time()
        self._line_ends.repair(matrices, geometries, others, first, second)
        return self._names.of(matrices, shape_pairs(self._shapes[first], self._shapes[second]))

    def _prepared_copy(self, position: int) -> Any:
        """A prepared copy of the area: the table's own geometry may be in use elsewhere."""
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
