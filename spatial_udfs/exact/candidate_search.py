"""Which pairs can be near, by their boxes, and the distances of pairs.

Bounds from boxes decide most pairs; the rest gets an exact distance. A pair whose matrix says that
it shares a point has the distance 0. GEOS may measure a little more where the point is a computed
crossing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import shapely
from numpy.typing import NDArray

from spatial_udfs.entity_table import Bools, Geometries, Positions
from spatial_udfs.exact.pair_memory import Pairs
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.topology.condition_verdicts import DistanceVerdict, Verdict
from spatial_udfs.topology.shapes import located_boxes
from spatial_udfs.topology.vertex_steps import distances_in_steps

# West, south, east, north of many boxes.
Sides: TypeAlias = tuple[NDArray[np.float64], ...]

# Steps of bounded size: between two of them limits are checked and other threads get through.
REFERENCES_PER_STEP: Final = 512
PAIRS_PER_STEP: Final = 1_000_000
# The sides of so many boxes tell how crowded the world is, and where.
SIDES_SAMPLED: Final = 1_024


class CandidateSearch:
    """Pairs by their boxes. Safe to share between threads."""

    def __init__(self, geometries: Geometries) -> None:
        """Build the tree: its first query does that, and must not happen in two threads."""
        self._geometries = geometries
        self._tree = shapely.STRtree(geometries)
        self._tree.query(shapely.Point(0, 0))
        # West, south, east, north in one row: what is looked up together lies together.
        self.boxes = shapely.bounds(geometries)
        self._located = located_boxes(geometries)
        # Each side of all boxes for itself, ascending, and of those every so many-th: they bound
        # how many boxes one can meet, and fit into the processor's cache.
        self._sample = -(-len(geometries) // SIDES_SAMPLED) or 1
        sampled = np.sort(self.boxes.T)[:, :: self._sample]
        self._west, self._south, self._east, self._north = np.ascontiguousarray(sampled)

    def meeting(self, references: Positions) -> tuple[Positions, Positions]:
        """Return pairs (reference, other entity) whose boxes meet, reference by reference."""
        return self._query(references, self._geometries[references])

    def within(self, references: Positions, reach: float) -> tuple[Positions, Positions]:
        """Return pairs (reference, other entity) whose boxes, grown by ``reach``, meet."""
        west, south, east, north = self.boxes[references].T
        around: Any = shapely.box(west - reach, south - reach, east + reach, north + reach)
        return self._query(references, around)

    def around(self, geometry: Any, reach: float) -> Positions:
        """Return the entities whose box, grown by ``reach``, meets the box of a geometry."""
        if not reach:
            return self._tree.query(geometry).astype(np.int32)
        west, south, east, north = shapely.bounds(geometry)
        box = shapely.box(west - reach, south - reach, east + reach, north + reach)
        return self._tree.query(box).astype(np.int32)

    def _query(self, references: Positions, geometries: Geometries) -> tuple[Positions, Positions]:
        if len(references) == 1:
            found = self._tree.query(geometries[0]).astype(np.int32)
            found = found[found != references[0]]
            return np.full(len(found), references[0]), found
        asked, found = self._tree.query(geometries)
        first, second = references[asked], found.astype(np.int32)
        other = first != second
        return first[other], second[other]

    def steps(self, references: Positions, reach: float = 0.0) -> Iterator[Positions]:
        """Yield the references in groups that give at most about PAIRS_PER_STEP pairs.

        A group with more has one reference. The bound holds however crowded a part of the world
        is: it counts the boxes that lie between the same sides.
        """
        count = len(references)
        if count == 1 or (
            count <= REFERENCES_PER_STEP and count * len(self._geometries) <= PAIRS_PER_STEP
        ):
            yield references
            return
        weights = self._most_pairs(references, reach) / PAIRS_PER_STEP + 1 / REFERENCES_PER_STEP
        ends = np.cumsum(weights)
        if ends[-1] <= 1:
            yield references
            return
        first_of_group = np.flatnonzero(np.diff(np.floor(ends), prepend=0.0))
        for group in np.split(references, first_of_group):
            if len(group):
                yield group

    def _most_pairs(self, references: Positions, reach: float) -> NDArray[np.int64]:
        """Return at least the number of boxes that each reference, grown by ``reach``, meets."""
        west, south, east, north = self.boxes[references].T
        across = np.searchsorted(self._west, east + reach, side="right")
        across -= np.searchsorted(self._east, west - reach, side="left")
        along = np.searchsorted(self._south, north + reach, side="right")
        along -= np.searchsorted(self._north, south - reach, side="left")
        most: NDArray[np.int64] = (np.minimum(across, along) + 1) * self._sample
        return most

    def sides(self, pairs: Pairs) -> tuple[Sides, Sides]:
        """Return the boxes of references and entities, ready to be compared pair by pair."""
        references = _once(pairs.references)
        return tuple(self.boxes.take(references, axis=0).T), tuple(
            self.boxes.take(pairs.entities, axis=0).T
        )

    def entity_may_be_inside(self, pairs: Pairs) -> Bools:
        """Return False where the matrix surely says that the entity reaches out of the reference.

        docs/decisions/0112: only points that GEOS locates one by one prove that.
        """
        references = _once(pairs.references)
        return lies_in(
            tuple(self._located.take(pairs.entities, axis=0).T),
            tuple(self.boxes.take(references, axis=0).T),
        )

    def reference_may_be_inside(self, pairs: Pairs) -> Bools:
        """Return the same with the reference in the entity."""
        references = _once(pairs.references)
        return lies_in(
            tuple(self._located.take(references, axis=0).T),
            tuple(self.boxes.take(pairs.entities, axis=0).T),
        )


def _once(references: Positions) -> Positions:
    """Return one reference where all are the same: pairs come reference by reference."""
    is_same = len(references) and references[0] == references[-1]
    return references[:1] if is_same else references


def lies_in(inner: Sides, outer: Sides) -> Bools:
    """Return whether the inner box does not reach out of the outer one."""
    return (
        (outer[0] <= inner[0])
        & (outer[1] <= inner[1])
        & (inner[2] <= outer[2])
        & (inner[3] <= outer[3])
    )


def reach_around(reach: float, *boxes: NDArray[np.float64]) -> float:
    """Return how far to grow boxes so that no pair within ``reach`` is missed; 0 for a reach of 0.

    Matrices need nothing: pairs that share a point have boxes that meet.
    """
    return reach * (1 + 2.0**-30) + sum(map(rounding_of, boxes)) if reach else 0.0


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
        """Return pairs (reference, entity), with all that are not further apart than ``reach``."""
        return self._search.within(references, reach + self._slack(reach))

    def rough(self, pairs: Pairs) -> DistanceVerdict:
        """Return verdicts from the boxes alone, undecided where a limit lies between the bounds."""
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
        """Return verdicts from the computed distances: at most the limit, the limit included."""
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
        """Return more than rounding can change at a distance of about ``limit``."""
        return self._margin + limit * _SAFETY
