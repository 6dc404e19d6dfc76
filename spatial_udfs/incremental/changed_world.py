"""Two versions of the world in one numbering: what is near what, and which pairs a condition ties.

The exact resolver finds the pairs of one stage by itself and remembers them. Here pairs are
given, of many stages at once, and none is asked for twice; the matrices and distances are the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from schemas.language.conditions import Condition, reach
from spatial_udfs.entity_table import (
    Bools,
    CategoryMasks,
    EntityTable,
    Geometries,
    Int64s,
)
from spatial_udfs.exact.given_pairs import pairs_hold
from spatial_udfs.incremental.member_rows import merged
from spatial_udfs.incremental.world_changes import WorldChanges

# Boxes are grown in floating point numbers: this share more than needed is surely enough.
_SAFETY: Final = 1e-9

Pairs = tuple[Int64s, Int64s]


class ChangedWorld:
    """Entities of both versions, numbered by ascending peid.

    ``touched``: added, removed, moved or recategorised. ``before`` and ``after`` are the places
    in the two versions, the same object where nothing moved.
    """

    def __init__(self, changes: WorldChanges, new: EntityTable) -> None:
        self.peids = merged(new.peids, changes.removed)
        self._new_places = np.searchsorted(self.peids, new.peids)
        self.after: Geometries = np.full(len(self.peids), None, object)
        self.after[self._new_places] = new.geometries
        self.before: Geometries = self.after.copy()
        left = shapely.from_wkb(changes.left_places.to_numpy())
        self.before[np.searchsorted(self.peids, changes.left)] = left
        self.touched = self._mask(changes.touched())
        self.exists = np.zeros(len(self.peids), np.bool_)
        self.exists[self._new_places] = True
        self.existed = np.ones(len(self.peids), np.bool_)
        self.existed[np.searchsorted(self.peids, changes.added)] = False
        self._masks = CategoryMasks(new)
        self._tree = shapely.STRtree(self.after)
        boxes = shapely.bounds(new.geometries)
        self._margin = _SAFETY * float(np.abs(boxes).max(initial=1.0))

    def __len__(self) -> int:
        """Return the number of entities that one of the versions has."""
        return len(self.peids)

    def numbers_of(self, peids: Int64s) -> tuple[Int64s, Bools]:
        """Return the numbers of the peids, and which of them are known at all."""
        # Most stand there many times: each is looked up once.
        coded = pc.dictionary_encode(pa.array(peids))
        different: Int64s = coded.dictionary.to_numpy()
        places = coded.indices.to_numpy()
        numbers = np.searchsorted(self.peids, different)
        numbers[numbers == len(self.peids)] = 0
        known = self.peids[numbers] == different
        return numbers[places], known[places]

    def of_categories(self, patterns: tuple[str, ...]) -> Bools:
        """Return which entities of the new version have such a category there."""
        mask = np.zeros(len(self.peids), np.bool_)
        mask[self._new_places] = self._masks.of(patterns)
        return mask

    def near(self, geometries: Geometries, condition: Condition, among: Bools) -> Pairs:
        """Return pairs (place in ``geometries``, entity of the new version) that may be tied.

        A condition that is false from afar is false for every pair that is missing here.
        """
        metres = reach(condition)
        if not len(geometries):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if metres == 0:
            asked, found = self._tree.query(geometries)
            chosen = among[found]
            return asked[chosen], found[chosen]
        grown = metres * (1 + _SAFETY) + self._margin
        west, south, east, north = shapely.bounds(geometries).T
        around = shapely.box(west - grown, south - grown, east + grown, north + grown)
        # Few are within the reach of everything: a tree of these alone gives fewer pairs.
        chosen = np.flatnonzero(among)
        asked, found = shapely.STRtree(self.after[chosen]).query(around)
        return asked, chosen[found]

    def holding(self, condition: Condition, references: Int64s, entities: Int64s) -> Bools:
        """Return for pairs of entities of the new version whether the condition holds."""
        other: NDArray[np.bool_] = references != entities
        holds = np.zeros(len(references), np.bool_)
        holds[other] = pairs_hold(
            condition, self.after, self.peids, references[other], entities[other]
        )
        return holds

    def _mask(self, peids: Int64s) -> Bools:
        mask = np.zeros(len(self.peids), np.bool_)
        mask[np.searchsorted(self.peids, peids)] = True
        return mask
