"""Decides conditions for pairs that are given, of many stages at once; nothing is remembered."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.language.conditions import Condition
from spatial_udfs.entity_table import Bools, Geometries, Int64s, Positions
from spatial_udfs.exact.candidate_search import Sides, lies_in, rounding_of
from spatial_udfs.resolution_limits import UNLIMITED
from spatial_udfs.topology.condition_verdicts import ConditionNeeds, Verdict, needs_of, verdict_of
from spatial_udfs.topology.pair_kinds import PAIRS_OF_SHAPES, Kinds, PairKinds, shape_pairs
from spatial_udfs.topology.pair_matrices import PairMatrices
from spatial_udfs.topology.shapes import located_boxes, shapes_of


def pairs_hold(
    condition: Condition,
    geometries: Geometries,
    peids: Int64s,
    references: Int64s,
    entities: Int64s,
) -> Bools:
    """Return for each pair of places in ``geometries`` whether the condition ties the entity.

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

    def hold(self, condition: Condition, first: Positions, second: Positions) -> Bools:
        needs = needs_of(condition)
        kinds = shape_pairs(self._shapes[first], self._shapes[second]).astype(np.uint16)
        fits = self._nest(needs, first, second)
        if needs.has_topology:
            kinds = self._matrix_kinds(kinds, fits, first, second)
        distances = self._distances(first, second) if needs.has_distance else np.empty(0)

        def by_distance(limit: float) -> Verdict:
            holds = distances <= limit
            return Verdict(holds, ~holds)

        return fits & verdict_of(condition, self._kinds, kinds, by_distance).can_hold

    def _distances(self, first: Positions, second: Positions) -> NDArray[np.float64]:
        """Return the distances, 0 where the matrix says that the pair shares a point."""
        distances = shapely.distance(self._geometries[first], self._geometries[second])
        doubtful = np.flatnonzero((distances > 0) & (distances <= rounding_of(self._boxes)))
        if len(doubtful):
            kinds = self._matrices().kinds(first[doubtful], second[doubtful], UNLIMITED)
            distances[doubtful[kinds >= PAIRS_OF_SHAPES]] = 0.0
        return distances

    def _matrix_kinds(
        self, disjoint: Kinds, fits: Bools, first: Positions, second: Positions
    ) -> Kinds:
        """Return the kinds; pairs whose boxes do not meet are disjoint and need no matrix."""
        (west, south, east, north), others = _sides(self._boxes, first), _sides(self._boxes, second)
        meet = (
            (west <= others[2]) & (others[0] <= east) & (south <= others[3]) & (others[1] <= north)
        )
        asked = np.flatnonzero(meet & fits)
        disjoint[asked] = self._matrices().kinds(first[asked], second[asked], UNLIMITED)
        return disjoint

    def _matrices(self) -> PairMatrices:
        return PairMatrices(self._geometries, self._shapes, self._kinds)

    def _nest(self, needs: ConditionNeeds, first: Positions, second: Positions) -> Bools:
        """Return where the pair may nest as the condition needs it (``located_boxes``)."""
        fits = np.ones(len(first), np.bool_)
        if not (needs.entity_inside or needs.reference_inside):
            return fits
        located = located_boxes(self._geometries)
        if needs.entity_inside:
            fits &= lies_in(_sides(located, second), _sides(self._boxes, first))
        if needs.reference_inside:
            fits &= lies_in(_sides(located, first), _sides(self._boxes, second))
        return fits


def _sides(boxes: NDArray[np.float64], places: Positions) -> Sides:
    return tuple(boxes[places].T)
