"""Buckets: the parts in which the bulk job holds a world, by a hash of the peid.

The bucket of an entity has its shape and categories, the pairs of which it is the reference, and
the sets of which it is a member. So a stage needs one exchange between buckets. A reference with
very many pairs is *heavy*: its pairs lie in the buckets of the entities at their other end, and
each of these asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Bools, Int32s, Int64s
from spatial_udfs.position_sets import is_in, spread_out
from spatial_udfs.topology.shapes import ShapeCodes

ENTITIES_PER_BUCKET: Final = 60_000

# The constants of the finalizer of splitmix64: every bit of a peid changes half of the bits.
_FIRST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D049BB133111EB)


def bucket_count(entities: int) -> int:
    """Return the number of buckets of a world with so many entities."""
    return max(1, -(-entities // ENTITIES_PER_BUCKET))


def bucket_of(peids: Int64s, buckets: int) -> NDArray[np.int32]:
    """Return the bucket of each entity, from 0."""
    mixed = peids.astype(np.uint64)
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST_FACTOR
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(buckets)).astype(np.int32)


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
