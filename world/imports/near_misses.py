"""Counts near misses: pairs of entities that are closer than a millimetre and share no point.

Straight lines of a source are not straight after projection, so a border that ended on the edge of
another entity can miss it by micrometres, and the two do not touch any more.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import shapely

from spatial_udfs.entity_table import Geometries, Int64s
from world.long_work import Progress, in_threads

NEAR_METRES: Final = 0.001
# How many entities are compared with all others at once. Few, because each may meet all others.
CHUNK: Final = 512


def near_misses(geometries: Geometries, tell: Progress) -> Int64s:
    """Return the near misses as rows of two positions, the lower one first.

    Of geometries that are equal point by point only the first one counts: thousands at one place
    would be millions of pairs.
    """
    first = _first_of_equals(geometries)
    pairs = first[_of_distinct(geometries[first], tell)]
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _first_of_equals(geometries: Geometries) -> Int64s:
    coded = pa.array(shapely.to_wkb(geometries), pa.large_binary()).dictionary_encode()
    first: Int64s = np.unique(coded.indices.to_numpy(), return_index=True)[1].astype(np.int64)
    return np.sort(first)


def _of_distinct(geometries: Geometries, tell: Progress) -> Int64s:
    tree = shapely.STRtree(geometries)
    starts = range(0, len(geometries), CHUNK)

    def of_chunk(start: int) -> Int64s:
        some = geometries[start : start + CHUNK]
        left, right = tree.query(some, predicate="dwithin", distance=NEAR_METRES)
        left = left + start
        once = left < right
        left, right = left[once], right[once]
        apart = ~shapely.intersects(geometries[left], geometries[right])
        return np.column_stack([left[apart], right[apart]])

    found = [np.empty((0, 2), np.int64)]
    for number, pairs in enumerate(in_threads(of_chunk, starts), start=1):
        found.append(pairs)
        tell("looking for near misses", number, len(starts))
    return np.concatenate(found)
