"""Whether a condition holds for given pairs, whatever stage they come from.

The exact resolver finds the pairs of one stage by itself and remembers them. Here pairs are
given, of many stages at once, and none is asked for twice; the matrices and distances are the same.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.language.conditions import Condition
from spatial_udfs.entity_table import Geometries, Int64s
from spatial_udfs.exact.candidate_search import Sides, lies_in
from spatial_udfs.exact.pair_distances import rounding_of
from spatial_udfs.resolution_limits import UNLIMITED
from spatial_udfs.topology.condition_needs import ConditionNeeds
from spatial_udfs.topology.condition_verdicts import Verdict, verdict_of
from spatial_udfs.topology.located_points import located_boxes
from spatial_udfs.topology.pair_kinds import PAIRS_OF_SHAPES, Bools, Kinds, PairKinds, shape_pairs
from spatial_udfs.topology.pair_matrices import PairMatrices
from spatial_udfs.topology.shapes import shapes_of

Places = NDArray[np.int64]
Places32 = NDArray[np.int32]

_needs_of = lru_cache(maxsize=4096)(ConditionNeeds.of)


def pairs_hold(
    condition: Condition,
    geometries: Geometries,
    peids: Int64s,
    references: Places,
    entities: Places,
) -> Bools:
    """For each pair of places in ``geometries``, whether the condition ties the entity.

    The geometries stand by ascending peid.
    """
    if not len(references):
        return np.zeros(0, np.bool_)
    involved, places = np.unique(np.concatenate([references, entities]), return_inverse=True)
    first, second = np.split(places.astype(np.int32), 2)
    return _Involved(geometries[involved], peids[involved]).hold(condition, first, second)


class _Involved:
    """The entities of some pairs, and nothing of the rest of the world."""

    def __init__(self, geometries: Geometries, peids: Int64s) -> None:
        self._geometries = geometries
        self._shapes = shapes_of(geometries, peids)
        self._boxes = shapely.bounds(geometries)
        self._kinds = PairKinds()

    def hold(self, condition: Condition, first: Places32, second: Places32) -> Bools:
        needs = _needs_of(condition)
        kinds = shape_pairs(self._shapes[first], self._shapes[second]).astype(np.uint16)
        fits = self._nest(needs, first, second)
        if needs.has_topology:
            kinds = self._matrix_kinds(kinds, fits, first, second)
        distances = self._distances(first, second) if needs.has_distance else np.empty(0)

        def by_distance(limit: float) -> Verdict:
            holds = distances <= limit
            return Verdict(holds, ~holds)

        return fits & verdict_of(condition, self._kinds, kinds, by_distance).can_hold

    def _distances(self, first: Places32, second: Places32) -> NDArray[np.float64]:
        """Return the distances, 0 where the matrix says that the pair shares a point."""
        distances = shapely.distance(self._geometries[first], self._geometries[second])
        doubtful = np.flatnonzero((distances > 0) & (distances <= rounding_of(self._boxes)))
        if len(doubtful):
            kinds = self._matrices().kinds(first[doubtful], second[doubtful], UNLIMITED)
            distances[doubtful[kinds >= PAIRS_OF_SHAPES]] = 0.0
        return distances

    def _matrix_kinds(
        self, disjoint: Kinds, fits: Bools, first: Places32, second: Places32
    ) -> Kinds:
        """Pairs whose boxes do not meet are disjoint, and need no matrix."""
        (west, south, east, north), others = _sides(self._boxes, first), _sides(self._boxes, second)
        meet = (
            (west <= others[2]) & (others[0] <= east) & (south <= others[3]) & (others[1] <= north)
        )
        asked = np.flatnonzero(meet & fits)
        disjoint[asked] = self._matrices().kinds(first[asked], second[asked], UNLIMITED)
        return disjoint

    def _matrices(self) -> PairMatrices:
        return PairMatrices(self._geometries, self._shapes, self._kinds)

    def _nest(self, needs: ConditionNeeds, first: Places32, second: Places32) -> Bools:
        """Where the pair may nest as the condition needs it (topology/located_points.py)."""
        fits = np.ones(len(first), np.bool_)
        if not (needs.entity_inside or needs.reference_inside):
            return fits
        located = located_boxes(self._geometries)
        if needs.entity_inside:
            fits &= lies_in(_sides(located, second), _sides(self._boxes, first))
        if needs.reference_inside:
            fits &= lies_in(_sides(located, first), _sides(self._boxes, second))
        return fits


def _sides(boxes: NDArray[np.float64], places: Places32) -> Sides:
    return tuple(boxes[places].T)
