"""Entities in which two world versions differ, as arrays for those who ask what that reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from schemas.entity import CATEGORIES, GEOMETRY, PEID
from spatial_udfs.bulk.category_sets import (
    Vocabulary,
    in_order,
    numbered_patterns,
    set_numbers,
    vocabulary_of,
)
from spatial_udfs.entity_table import Int32s, Int64s
from spatial_udfs.incremental.affected_sets import tree_of_boxes


class Touched(NamedTuple):
    """Entities that may count differently for a neighborhood.

    Those that the new version has, the arrived ones, have a box and categories there.
    """

    peids: Int64s
    boxes: NDArray[np.float64]
    set_of: Int32s  # by arrived entity: the number of its categories
    vocabulary: Vocabulary

    def nbytes(self) -> int:
        """Return about how much memory it takes."""
        return int(self.peids.nbytes + self.boxes.nbytes + self.set_of.nbytes)


def touched_of(rows: pa.Table) -> Touched:
    """Return the touched entities of rows with their new state; a null geometry means gone."""
    arrived = rows.filter(pc.is_valid(rows.column(GEOMETRY)))
    geometries: Any = shapely.from_wkb(arrived.column(GEOMETRY).to_numpy())
    vocabulary = in_order(vocabulary_of(arrived.column(CATEGORIES)))
    return Touched(
        rows.column(PEID).to_numpy(),
        shapely.bounds(geometries).reshape(-1, 4),
        set_numbers(arrived.column(CATEGORIES), vocabulary),
        vocabulary,
    )


def joined(parts: Sequence[Touched]) -> Touched:
    """Return the entities of all parts, with categories numbered anew."""
    vocabulary = in_order(tuple(names) for part in parts for names in part.vocabulary)
    numbers = {tuple(names): number for number, names in enumerate(vocabulary)}
    set_of = [np.empty(0, np.int32)]
    for part in parts:
        codes = [numbers[tuple(names)] for names in part.vocabulary]
        set_of.append(np.array(codes, np.int32)[part.set_of])
    return Touched(
        np.unique(np.concatenate([np.empty(0, np.int64), *(part.peids for part in parts)])),
        np.concatenate([np.empty((0, 4)), *(part.boxes for part in parts)]),
        np.concatenate(set_of),
        vocabulary,
    )


def arrived_tree(touched: Touched, text: str) -> shapely.STRtree:
    """Return the boxes of what arrived and has one of these categories (patterns as text)."""
    patterns = numbered_patterns([text], touched.vocabulary)
    return tree_of_boxes(touched.boxes[patterns.selected[0][touched.set_of]])
