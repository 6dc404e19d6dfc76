"""The neighborhood subscriptions of this broker as they were when a generation was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from broker.peid_table import SlotArray
from broker.subscription import Subscription, SubscriptionTerms
from spatial_udfs.entity_table import Int64s

# So many are looked at before messages get their turn: about a millisecond.
LOOKED_AT_ONCE: Final = 4_000


@dataclass(frozen=True, slots=True, eq=False)
class OwnSubscriptions:
    """``sub_ids`` (ascending) with their ``slots`` are those that the generation holds."""

    sub_ids: Int64s
    slots: SlotArray
    # The others: slot and terms of each.
    late: list[tuple[int, SubscriptionTerms]]
    _every: Sequence[Subscription] = field(repr=False)

    def covers(self, number: int) -> bool:
        """Whether this is one that the generation holds."""
        at = int(np.searchsorted(self.sub_ids, number))
        return at < len(self.sub_ids) and int(self.sub_ids[at]) == number

    def without_rows(self, named: SlotArray, after: int) -> set[int]:
        """Those beyond a subId of whose slots none is named."""
        absent = ~np.isin(self.slots, named) & (self.sub_ids > after)
        return set(self.sub_ids[absent].tolist())

    def descriptors(self, numbers: Collection[int], most: int) -> dict[int, str]:
        """The descriptors of some that the generation holds, of at most so many."""
        wanted = set(sorted(number for number in numbers if self.covers(number))[:most])
        if not wanted:
            return {}
        return {
            one.terms.sub_id: one.terms.descriptor
            for one in self._every
            if one.terms.sub_id in wanted and one.terms.descriptor is not None
        }


async def own_subscriptions(
    every: Sequence[Subscription], up_to: int, arrived: Collection[int]
) -> OwnSubscriptions:
    """Sort out those that were in force when the generation was begun, some at a time.

    ``arrived`` are the slots given since: what is entered under one of them, also a
    subscription that was made again, is known to the generation already.
    """
    numbers: list[int] = []
    slots: list[int] = []
    late: list[tuple[int, SubscriptionTerms]] = []
    for start in range(0, len(every), LOOKED_AT_ONCE):
        for one in every[start : start + LOOKED_AT_ONCE]:
            slot, terms = one.slot, one.terms
            if terms.sub_id is None or slot < 0 or slot in arrived:
                continue
            if terms.sub_id > up_to:
                late.append((slot, terms))
            else:
                numbers.append(terms.sub_id)
                slots.append(slot)
        await asyncio.sleep(0)
    sub_ids = np.array(numbers, np.int64)
    order = np.argsort(sub_ids)
    return OwnSubscriptions(sub_ids[order], np.array(slots, np.uint32)[order], late, every)
