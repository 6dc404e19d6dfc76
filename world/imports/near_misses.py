"""Counts near misses: pairs of entities that are closer than a millimetre and share no point.

Straight lines of a source are not straight after projection, so a border that ended on the edge of
another entity can miss it by micrometres, and the two do not touch any more.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import shapely

from spatial_udfs.entity_table import Geometries, Int64s
from world.long_work import Progress

NEAR_METRES: Final = 0.001
# How many entities are compared with all others at once. Few, because each may meet all others.
CHUNK: Final = 1_024
# From so many coordinates on, an index of the edges of a geometry is faster than no index.
LARGE: Final = 16


def near_misses(geometries: Geometries, tell: Progress) -> Int64s:
    """Return the near misses as rows of two positions, the lower one first.

    Of geometries that are equal point by point only the first one counts: thousands at one place
    would be millions of pairs.
    """
    first = _first_of_equals(geometries)
    distinct = geometries[first]
    sizes = shapely.get_num_coordinates(distinct).astype(np.int64)
    large = distinct[sizes >= LARGE]
    # Indexes make this search several times faster. They belong to the objects: none is left there.
    shapely.prepare(large)
    try:
        pairs = first[_of_distinct(distinct, sizes, tell)]
    finally:
        shapely.destroy_prepared(large)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _first_of_equals(geometries: Geometries) -> Int64s:
    coded = pa.array(shapely.to_wkb(geometries), pa.large_binary()).dictionary_encode()
    first: Int64s = np.unique(coded.indices.to_numpy(), return_index=True)[1].astype(np.int64)
    return np.sort(first)


def _of_distinct(geometries: Geometries, sizes: Int64s, tell: Progress) -> Int64s:
    tree = shapely.STRtree(geometries)
    grown = shapely.bounds(geometries) + np.array([-1, -1, 1, 1]) * NEAR_METRES
    boxes: Any = shapely.box(*grown.T)
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, len(geometries), CHUNK):
        left, right = tree.query(boxes[start : start + CHUNK])
        left = left + start
        once = left < right
        left, right = left[once], right[once]
        # The geometry with an index goes first.
        swapped = sizes[left] < sizes[right]
        one, other = np.where(swapped, right, left), np.where(swapped, left, right)
        apart = ~shapely.intersects(geometries[one], geometries[other])
        one, other = one[apart], other[apart]
        near = shapely.dwithin(geometries[one], geometries[other], NEAR_METRES)
        pairs = np.column_stack([one[near], other[near]])
        found.append(np.sort(pairs, axis=1))
        tell("looking for near misses", min(start + CHUNK, len(geometries)), len(geometries))
    return np.concatenate(found)
