"""Rows (set, stage, entity) as single numbers in ascending order: sets of rows as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatial_udfs.entity_table import Int64s
from spatial_udfs.position_sets import spread_out
from spatial_udfs.topology.pair_kinds import Bools


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Numbers rows; sets, stages and entities count from 0."""

    stages: int
    entities: int

    def of(self, sets: NDArray[np.integer], stages: NDArray[np.integer] | int, entities: Int64s
    ) -> Int64s:  # fmt: skip
        """The keys of rows."""
        keys: Int64s = (sets.astype(np.int64) * self.stages + stages) * self.entities + entities
        return keys

    def sets_of(self, keys: Int64s) -> Int64s:
        """The sets of rows."""
        return keys // (self.stages * self.entities)

    def stages_of(self, keys: Int64s) -> Int64s:
        """The stages of rows."""
        return keys // self.entities % self.stages

    def entities_of(self, keys: Int64s) -> Int64s:
        """The entities of rows."""
        return keys % self.entities


def distinct(keys: Int64s) -> Int64s:
    """The keys in ascending order, each once; numpy's own way is slow for many different ones."""
    ordered = np.sort(keys)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def joined(*parts: Int64s) -> Int64s:
    """The keys of all parts in ascending order, each once."""
    return distinct(np.concatenate(parts))


def merged(many: Int64s, few: Int64s) -> Int64s:
    """Two ascending arrays that have nothing in common as one, without sorting all again."""
    return np.insert(many, np.searchsorted(many, few), few)


def without(keys: Int64s, ascending: Int64s) -> Int64s:
    """The keys that are none of the others."""
    return keys[~among(keys, ascending)]


def differences(old: Int64s, new: Int64s) -> tuple[Int64s, Int64s]:
    """What only the first and only the second has; both ascend, each key once.

    Most keys are in both. Two ascending runs are merged in one go, where looking each key up in
    the other array would be the slowest part of a comparison.
    """
    both = np.sort(np.concatenate([old, new]), kind="stable")
    alone = np.ones(len(both), np.bool_)
    same = both[1:] == both[:-1]
    alone[1:][same] = False
    alone[:-1][same] = False
    single = both[alone]
    is_old = among(single, old)
    return single[is_old], single[~is_old]


def among(keys: Int64s, ascending: Int64s) -> Bools:
    """For each key, whether it is one of the others."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    places = np.searchsorted(ascending, keys)
    places[places == len(ascending)] = 0
    found: Bools = ascending[places] == keys
    return found


def matched(values: Int64s, others: Int64s) -> tuple[Int64s, Int64s]:
    """All pairs of places at which the two arrays hold the same value."""
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    first = np.searchsorted(ordered, values)
    counts = np.searchsorted(ordered, values, side="right") - first
    rows, places = spread_out(first, counts)
    return rows, order[places]
