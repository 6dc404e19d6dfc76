"""Conditions that hold for far pairs, by counting instead of building a cross product.

Such a condition selects an entity unless *every* reference for which it would hold from afar
has come as a candidate and failed. So candidates are counted, entity by entity.
"""

from __future__ import annotations

import numpy as np

from spatial_udfs.entity_table import Positions
from spatial_udfs.topology.pair_kinds import Bools, shape_pairs
from spatial_udfs.topology.shapes import SHAPE_COUNT, ShapeCodes


class FarCount:
    """References that an entity would be tied to from afar, less those that came near it."""

    def __init__(self, far: Bools, shapes: ShapeCodes, references: Positions) -> None:
        """``far`` tells, by pair of shapes, whether the condition holds for far pairs."""
        self._far = far
        self._shapes = shapes
        by_shape = np.bincount(shapes[references], minlength=SHAPE_COUNT)
        self._references = by_shape @ far.reshape(SHAPE_COUNT, SHAPE_COUNT)
        self._came = np.zeros(len(shapes), np.int64)

    def add_candidates(self, references: Positions, entities: Positions) -> None:
        """Count these pairs as not far, whether the condition holds for them or not."""
        counted = self._far[shape_pairs(self._shapes[references], self._shapes[entities])]
        self._came += np.bincount(entities[counted], minlength=len(self._came))

    def selected(self, eligible: Bools) -> Positions:
        """Eligible entities with at least one reference left over."""
        left = self._references[self._shapes] > self._came
        return np.flatnonzero(eligible & left).astype(np.int32)
