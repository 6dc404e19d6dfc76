"""Keys that Spark's hash brings to a wanted partition, so that each gets equally many cells."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray


@cache
def partition_keys(partitions: int) -> NDArray[np.int32]:
    """Return an integer for each partition that Spark's hash brings there.

    Spark documents the hash as ``hash``: Murmur3. If it ever changes, partitions get unequal
    numbers of cells, and results stay the same.
    """
    candidates = np.arange(max(64, 16 * partitions), dtype=np.int32)
    while True:
        owners = spark_hash(candidates) % partitions
        found, first = np.unique(owners, return_index=True)
        if len(found) == partitions:
            return candidates[first]
        candidates = np.arange(2 * len(candidates), dtype=np.int32)


def spark_hash(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return what Spark's ``hash`` gives for integers: Murmur3 with the seed 42."""
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
        mixed = _rotated(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
        mixed ^= np.uint32(4)
        mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (mixed ^ (mixed >> np.uint32(16))).astype(np.int32)


def _rotated(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    found: NDArray[np.uint32] = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return found
