"""What two generations in Redis have different, counted for some subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from redis_link.sets.member_sets import Members
from spatial_udfs.entity_table import Int64s


class Comparison:
    """Counts, for each of ``sub_ids`` (ascending), the members gained and lost."""

    def __init__(self, sub_ids: Int64s) -> None:
        self._sub_ids = sub_ids
        self.gained = np.zeros(len(sub_ids), np.int64)
        self.lost = np.zeros(len(sub_ids), np.int64)

    def add(self, new: Sequence[Members], old: Sequence[Members]) -> None:
        """Compare the same shards of both."""
        every = [members.peids for members in (*new, *old)]
        peids = np.unique(np.concatenate([np.empty(0, np.int64), *every]))
        present = self._keys(peids, new)
        before = self._keys(peids, old)
        size = len(self._sub_ids)
        for total, keys in (
            (self.gained, np.setdiff1d(present, before, assume_unique=True)),
            (self.lost, np.setdiff1d(before, present, assume_unique=True)),
        ):
            np.add(total, np.bincount(keys % max(size, 1), minlength=size), out=total)

    def _keys(self, peids: Int64s, parts: Sequence[Members]) -> Int64s:
        """One number for each pair of an entity and one of the subscriptions."""
        keys = [np.empty(0, np.int64)]
        for members in parts:
            of_pair = np.repeat(members.peids, np.diff(members.offsets))
            places = np.searchsorted(self._sub_ids, members.sub_ids)
            places[places == len(self._sub_ids)] = 0
            is_own = self._sub_ids[places] == members.sub_ids
            at = np.searchsorted(peids, of_pair[is_own])
            keys.append(at * len(self._sub_ids) + places[is_own])
        return np.concatenate(keys)
