"""Buckets: the parts in which the bulk job holds a world, by a hash of the peid.

Everything that is known of an entity is in its bucket: its shape and categories, the pairs of
which it is the reference, the sets it is a member of. So a stage goes from bucket to bucket by
one exchange. A reference with very many pairs is *heavy*: its pairs lie in the buckets of the
entities at their other end, and each of these asks for it.
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
    """How many buckets a world of so many entities has."""
    return max(1, -(-entities // ENTITIES_PER_BUCKET))


def bucket_of(peids: Int64s, buckets: int) -> NDArray[np.int32]:
    """The bucket of each entity, from 0."""
    mixed = peids.astype(np.uint64)
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST_FACTOR
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(buckets)).astype(np.int32)
