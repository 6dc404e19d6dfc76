"""One bucket of a world in memory: its entities and its pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spatial_udfs.entity_table import Bools, Int32s, Int64s
from spatial_udfs.position_sets import is_in, spread_out
from spatial_udfs.topology.shapes import ShapeCodes


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Related pairs of a bucket, by ascending reference."""

    references: Int64s
    entities: Int64s
    kinds: Int32s
    category_sets: Int32s

    def of(self, asked: Int64s) -> tuple[Int64s, Int64s]:
        """Return for each pair of these references the positions of reference and pair."""
        first = np.searchsorted(self.references, asked)
        counts = np.searchsorted(self.references, asked, side="right") - first
        return spread_out(first, counts)


@dataclass(frozen=True, slots=True, eq=False)
class BucketEntities:
    """The entities of a bucket. ``peids`` ascend.

    ``heavy`` tells which have pairs in the buckets of the entities at the other end.
    """

    peids: Int64s
    shapes: ShapeCodes
    category_sets: Int32s
    heavy: Bools

    def places_of(self, peids: Int64s) -> Int64s:
        """Return the position of each of these entities; all of them must be in this bucket."""
        return np.searchsorted(self.peids, peids)

    def has(self, peids: Int64s) -> Bools:
        """Return which of these entities are in this bucket."""
        return is_in(peids, self.peids)
