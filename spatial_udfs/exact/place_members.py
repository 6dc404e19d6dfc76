"""The members that places give a stage.

A place is no entity, so its pairs are not remembered. The entities that can be near a place make a
small world together with the places, and the same steps as for entities find the members in it. The
places stand first there, so they come first in the matrix of a pair.
"""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from schemas.language.conditions import Condition
from schemas.topology.relations import SHAPE_COUNT
from spatial_udfs.entity_table import Bools, Geometries, Int64s, Positions
from spatial_udfs.exact.candidate_search import CandidateSearch, reach_around
from spatial_udfs.exact.stage_members import OpenEntities, StageMembers
from spatial_udfs.position_sets import EMPTY, as_set
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.topology.condition_verdicts import ConditionNeeds, needs_of
from spatial_udfs.topology.shapes import ShapeCodes, shapes_of


class PlaceMembers:
    """Evaluates stages whose references are places. Safe to share between threads."""

    def __init__(
        self, geometries: Geometries, shapes: ShapeCodes, search: CandidateSearch, max_pairs: int
    ) -> None:
        """Share the index of the world version."""
        self._geometries = geometries
        self._shapes = shapes
        self._search = search
        self._max_pairs = max_pairs

    def select(
        self,
        condition: Condition,
        candidates: OpenEntities,
        places: Geometries,
        limits: ResolutionLimits,
    ) -> Positions:
        """Return the candidates that the condition ties to a place."""
        if not len(places):
            return EMPTY
        needs = needs_of(condition)
        near = self._near(needs, places, limits)
        asked = near[candidates.among(near)]
        shapes = shapes_of(places, _numbers(places))
        found = self._select_near(condition, asked, places, shapes, limits)
        if not needs.has_far:
            return found
        # All others are far from every place.
        rest = candidates.mask().copy()
        rest[near] = False
        held = _held_by_shape(needs, shapes)[self._shapes]
        return as_set(np.concatenate([found, np.flatnonzero(rest & held).astype(np.int32)]))

    def _near(
        self, needs: ConditionNeeds, places: Geometries, limits: ResolutionLimits
    ) -> Positions:
        """Return the entities with a pair that is not surely far; the others decide nothing."""
        reach = reach_of(needs, self._search.boxes, places)
        near = np.zeros(len(self._geometries), np.bool_)
        for place in places:
            near[self._search.around(place, reach)] = True
            limits.check_time()
        return np.flatnonzero(near).astype(np.int32)

    def _select_near(
        self,
        condition: Condition,
        asked: Positions,
        places: Geometries,
        shapes: ShapeCodes,
        limits: ResolutionLimits,
    ) -> Positions:
        """Return which of these entities the condition ties to a place."""
        if not len(asked):
            return EMPTY
        count = len(places)
        stages = StageMembers(
            np.concatenate([places, self._geometries[asked]]),
            np.concatenate([shapes, self._shapes[asked]]),
            self._max_pairs,
        )
        is_entity = np.ones(count + len(asked), np.bool_)
        is_entity[:count] = False
        references = np.arange(count, dtype=np.int32)
        found = stages.select(condition, OpenEntities(is_entity, EMPTY), references, limits)
        return asked[found - count]


def reach_of(needs: ConditionNeeds, boxes: NDArray[np.float64], places: Geometries) -> float:
    """Return how far from the box of a place all entities are that are not surely far."""
    if needs.meeting_only or not needs.has_distance:
        return 0.0
    return reach_around(needs.reach, boxes, shapely.bounds(places))


def _held_by_shape(needs: ConditionNeeds, places: ShapeCodes) -> Bools:
    """Return by shape of an entity whether the condition ties it to one of the places from afar."""
    by_shape = np.bincount(places, minlength=SHAPE_COUNT)
    held: Bools = (by_shape @ needs.far.reshape(SHAPE_COUNT, SHAPE_COUNT)) > 0
    return held


def _numbers(places: Geometries) -> Int64s:
    """Return the numbers that stand for peids in errors: below every peid."""
    return np.arange(-len(places), 0, dtype=np.int64)
