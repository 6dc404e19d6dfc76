"""The rows of a generation that concern this broker, read into its own slots."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import numpy as np

from broker.memberships_memory import GenerationBuilder
from broker.peid_table import SlotArray
from redis_link.client import connect
from redis_link.generation_store import require_complete
from redis_link.member_sets import Members
from redis_link.set_reader import read_shards
from redis_link.url import RedisUrl
from schemas.redis_keys import SHARD_COUNT
from spatial_udfs.entity_table import Int64s


class OwnRows:
    """Which subIds are ours, and the slot of each."""

    def __init__(self, slots_by_sub_id: Mapping[int, int]) -> None:
        self._sub_ids = np.array(sorted(slots_by_sub_id), np.int64)
        self._slots: SlotArray = np.array(
            [slots_by_sub_id[number] for number in self._sub_ids.tolist()], np.uint32
        )

    def of(self, members: Members) -> tuple[Int64s, SlotArray]:
        """The pairs of peid and slot among some sets."""
        peids = np.repeat(members.peids, np.diff(members.offsets))
        places = np.searchsorted(self._sub_ids, members.sub_ids)
        places[places == len(self._sub_ids)] = 0
        is_own = self._sub_ids[places] == members.sub_ids
        return peids[is_own], self._slots[places[is_own]]


def read_own_rows(
    address: RedisUrl, generation: int, rows: OwnRows, builder: GenerationBuilder
) -> None:
    """Read a whole generation into the builder; GenerationError when it is not there any more.

    Runs in a thread of its own: everything in between is the business of the event loop.
    """
    with closing(connect(address)) as client:
        require_complete(client, generation)
        for members in read_shards(client, generation, range(SHARD_COUNT)):
            peids, slots = rows.of(members)
            if len(peids):
                builder.add_pairs(peids, slots)
        # One that is removed meanwhile looks as if it were smaller.
        require_complete(client, generation)
