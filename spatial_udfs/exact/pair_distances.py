"""Distances of pairs: bounds from boxes, which decide most pairs, and exact ones for the rest.

A pair whose matrix says that it shares a point has the distance 0. GEOS may measure a little more
where the point is a computed crossing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Geometries, Positions
from spatial_udfs.exact.candidate_search import CandidateSearch
from spatial_udfs.exact.pair_memory import Pairs
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.topology.condition_verdicts import DistanceVerdict, Verdict
from spatial_udfs.topology.pair_kinds import Bools
from spatial_udfs.topology.vertex_steps import distances_in_steps

# Which pairs (reference, entity) share a point, by their matrices.
SharedPoints: TypeAlias = Callable[[Positions, Positions, ResolutionLimits], Bools]

# Rounding in a computed distance stays far below this share of the largest coordinate and of
# the distance: wherever bounds decide, comparing the computed distance gives the same.
_SAFETY: Final = 2.0**-40


def rounding_of(boxes: NDArray[np.float64]) -> float:
    """Return more than rounding can change in a distance between things in these boxes."""
    return _SAFETY * float(np.abs(boxes).max(initial=1.0))


class PairDistances:
    """Distances between the entities of one table, always from the reference to the entity."""

    def __init__(
        self, geometries: Geometries, search: CandidateSearch, share_a_point: SharedPoints
    ) -> None:
        """Share the boxes of the search."""
        self._geometries = geometries
        self._share_a_point = share_a_point
        self._search = search
        self._margin = rounding_of(search.boxes)

    def candidates(self, references: Positions, reach: float) -> tuple[Positions, Positions]:
        """Pairs (reference, entity), among them all that are not further apart than ``reach``."""
        return self._search.within(references, reach + self._slack(reach))

    def rough(self, pairs: Pairs) -> DistanceVerdict:
        """Verdicts from the boxes alone, undecided where a limit lies between the bounds."""
        (west, south, east, north), entities = self._search.sides(pairs)
        e_west, e_south, e_east, e_north = entities
        gap_x = np.maximum(np.maximum(e_west - east, west - e_east), 0)
        gap_y = np.maximum(np.maximum(e_south - north, south - e_north), 0)
        span_x = np.maximum(e_east - west, east - e_west)
        span_y = np.maximum(e_north - south, north - e_south)
        at_least, at_most = np.hypot(gap_x, gap_y), np.hypot(span_x, span_y)

        def verdict(limit: float) -> Verdict:
            slack = self._slack(limit)
            return Verdict(at_least <= limit + slack, at_most >= limit - slack)

        return verdict

    def exact(self, pairs: Pairs, limits: ResolutionLimits) -> DistanceVerdict:
        """Verdicts from the computed distances: at most the limit, the limit included."""
        references, entities = pairs.references, pairs.entities
        first, second = self._geometries[references], self._geometries[entities]
        distances = distances_in_steps(first, second, limits)
        doubtful = np.flatnonzero((distances > 0) & (distances <= self._margin))
        if len(doubtful):
            meet = self._share_a_point(references[doubtful], entities[doubtful], limits)
            distances[doubtful[meet]] = 0.0

        def verdict(limit: float) -> Verdict:
            holds = distances <= limit
            return Verdict(holds, ~holds)

        return verdict

    def _slack(self, limit: float) -> float:
        """More than rounding can change at a distance of about ``limit``."""
        return self._margin + limit * _SAFETY
