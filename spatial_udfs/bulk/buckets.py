"""Buckets: the parts in which the bulk job holds a world, by a hash of the peid.

The bucket of an entity has its shape and categories, the pairs of which it is the reference, and
the sets of which it is a member. So a stage needs one exchange between buckets. A reference with
very many pairs is *heavy*: its pairs lie in the buckets of the entities at their other end, and
each of these asks for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Int64s

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
