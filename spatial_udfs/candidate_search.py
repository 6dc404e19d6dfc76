"""Which pairs can be near at all: the boxes of a world version and the tree over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import shapely

from spatial_udfs.entity_table import Geometries, Positions

# Steps of bounded size: between two of them limits are checked and other threads get through.
REFERENCES_PER_STEP: Final = 512
PAIRS_PER_STEP: Final = 1_000_000


class CandidateSearch:
    """Pairs by their boxes. Safe to share between threads."""

    def __init__(self, geometries: Geometries) -> None:
        """Build the tree: its first query does that, and must not happen in two threads."""
        self._geometries = geometries
        self._tree = shapely.STRtree(geometries)
        self._tree.query(shapely.Point(0, 0))
        self.boxes = np.ascontiguousarray(shapely.bounds(geometries).T)
        west, south, east, north = self.boxes
        self._width = max(float(east.max(initial=0.0) - west.min(initial=0.0)), 1.0)
        self._height = max(float(north.max(initial=0.0) - south.min(initial=0.0)), 1.0)

    def meeting(self, references: Positions) -> tuple[Positions, Positions]:
        """Pairs (reference, entity) whose boxes meet, reference by reference."""
        asked, found = self._tree.query(self._geometries[references])
        return references[asked], found.astype(np.int32)

    def within(self, references: Positions, reach: float) -> tuple[Positions, Positions]:
        """Pairs (reference, entity) whose boxes, grown by ``reach``, meet."""
        west, south, east, north = self.boxes[:, references]
        around: Any = shapely.box(west - reach, south - reach, east + reach, north + reach)
        asked, found = self._tree.query(around)
        return references[asked], found.astype(np.int32)

    def steps(self, references: Positions, reach: float = 0.0) -> Iterator[Positions]:
        """The references in groups that should not give many more than PAIRS_PER_STEP pairs.

        The estimate is the share of the world that a box covers; it need not be good.
        """
        west, south, east, north = self.boxes[:, references]
        covered = np.minimum((east - west + 2 * reach) / self._width, 1.0) * np.minimum(
            (north - south + 2 * reach) / self._height, 1.0
        )
        weights = covered * (len(self._geometries) / PAIRS_PER_STEP) + 1 / REFERENCES_PER_STEP
        ends = np.cumsum(weights)
        if ends[-1] <= 1:
            yield references
            return
        first_of_group = np.flatnonzero(np.diff(np.floor(ends), prepend=0.0))
        for group in np.split(references, first_of_group):
            if len(group):
                yield group

    def nesting(self, references: Positions, entities: Positions) -> Any:
        """For each pair 1 if the entity's box lies in the reference's, plus 2 for the converse."""
        west, south, east, north = self.boxes[:, references]
        e_west, e_south, e_east, e_north = self.boxes[:, entities]
        inside = (west <= e_west) & (south <= e_south) & (e_east <= east) & (e_north <= north)
        around = (e_west <= west) & (e_south <= south) & (east <= e_east) & (north <= e_north)
        return inside + 2 * around
