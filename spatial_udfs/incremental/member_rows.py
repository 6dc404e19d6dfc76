"""Rows (set, stage, entity) of many neighborhoods: as arrays, and as single numbers that ascend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Bools, Int32s, Int64s
from spatial_udfs.position_sets import as_set, is_in, spread_out


@dataclass(frozen=True, slots=True, eq=False)
class MemberRows:
    """Rows by set, and within a set by stage and peid; ``shown``: the stage is visible."""

    sets: Int32s
    stages: Int32s
    shown: Bools
    peids: Int64s

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.peids)

    def where(self, chosen: Bools) -> MemberRows:
        """Return some of the rows."""
        return MemberRows(
            self.sets[chosen], self.stages[chosen], self.shown[chosen], self.peids[chosen]
        )

    def visible(self) -> MemberRows:
        """Return the rows of visible stages."""
        return self if self.shown.all() else self.where(self.shown)

    def numbered(self, numbers: Int64s) -> MemberRows:
        """Return the rows with other set numbers: ``numbers[old]`` is the new one."""
        return MemberRows(numbers[self.sets].astype(np.int32), self.stages, self.shown, self.peids)

    @classmethod
    def joined(cls, parts: Sequence[MemberRows]) -> MemberRows:
        """Return all rows of some parts, in order; no set stands in two of them."""
        if not parts:
            return NO_ROWS
        sets = np.concatenate([part.sets for part in parts])
        order = np.argsort(sets, kind="stable")
        return cls(
            sets[order],
            np.concatenate([part.stages for part in parts])[order],
            np.concatenate([part.shown for part in parts])[order],
            np.concatenate([part.peids for part in parts])[order],
        )


NO_ROWS: Final = MemberRows(
    np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.bool_), np.empty(0, np.int64)
)


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Numbers rows; sets, stages and entities count from 0."""

    stages: int
    entities: int

    def of(self, sets: NDArray[np.integer], stages: NDArray[np.integer] | int, entities: Int64s
    ) -> Int64s:  # fmt: skip
        """Return the keys of rows."""
        keys: Int64s = (sets.astype(np.int64) * self.stages + stages) * self.entities + entities
        return keys

    def sets_of(self, keys: Int64s) -> Int64s:
        """Return the sets of rows."""
        return keys // (self.stages * self.entities)

    def stages_of(self, keys: Int64s) -> Int64s:
        """Return the stages of rows."""
        return keys // self.entities % self.stages

    def entities_of(self, keys: Int64s) -> Int64s:
        """Return the entities of rows."""
        return keys % self.entities


def joined(*parts: Int64s) -> Int64s:
    """Return the keys of all parts in ascending order, each once."""
    return as_set(np.concatenate(parts))


def merged(many: Int64s, few: Int64s) -> Int64s:
    """Return two ascending arrays that have nothing in common as one, without sorting all again."""
    return np.insert(many, np.searchsorted(many, few), few)


def without(keys: Int64s, ascending: Int64s) -> Int64s:
    """Return the keys that are none of the others."""
    return keys[~is_in(keys, ascending)]


def differences(old: Int64s, new: Int64s) -> tuple[Int64s, Int64s]:
    """Return what only the first and only the second has; both ascend, each key once.

    Most keys are in both. Two ascending runs are merged in one go, where looking each key up in
    the other array would be the slowest part of a comparison.
    """
    both = np.sort(np.concatenate([old, new]), kind="stable")
    alone = np.ones(len(both), np.bool_)
    same = both[1:] == both[:-1]
    alone[1:][same] = False
    alone[:-1][same] = False
    single = both[alone]
    is_old = is_in(single, old)
    return single[is_old], single[~is_old]


def matched(values: Int64s, others: Int64s) -> tuple[Int64s, Int64s]:
    """Return all pairs of places at which the two arrays hold the same value."""
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    first = np.searchsorted(ordered, values)
    counts = np.searchsorted(ordered, values, side="right") - first
    rows, places = spread_out(first, counts)
    return rows, order[places]
