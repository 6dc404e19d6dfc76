"""The rows of a generation that concern this broker, in its own slots."""

from __future__ import annotations

import numpy as np

from broker.filter.peid_table import SlotArray
from redis_link.sets.member_sets import Members
from spatial_udfs.entity_table import Int64s


class OwnRows:
    """Which subIds are ours (ascending), and the slot of each."""

    def __init__(self, sub_ids: Int64s, slots: SlotArray) -> None:
        self._sub_ids = sub_ids
        self._slots = slots

    def of(self, members: Members) -> tuple[Int64s, SlotArray]:
        """The pairs of peid and slot among some sets."""
        peids = np.repeat(members.peids, np.diff(members.offsets))
        places = np.searchsorted(self._sub_ids, members.sub_ids)
        places[places == len(self._sub_ids)] = 0
        is_own = self._sub_ids[places] == members.sub_ids
        return peids[is_own], self._slots[places[is_own]]
