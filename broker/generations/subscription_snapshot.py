"""The neighborhood subscriptions of this broker as they were when a generation was begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from broker.filter.peid_table import SlotArray
from spatial_udfs.entity_table import Int64s

# So many are looked at before messages get their turn: about a millisecond.
LOOKED_AT_ONCE: Final = 4_000

# Gives the neighborhood subscriptions that are in force when it is called.
Every: TypeAlias = Callable[[], Iterable[Subscription]]


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionSnapshot:
    """``sub_ids`` (ascending) with their ``slots`` are those that the generation holds."""

    sub_ids: Int64s
    slots: SlotArray
    # The others: slot and terms of each.
    late: list[tuple[int, SubscriptionTerms]]
    _every: Every = field(repr=False)

    def covers(self, number: int) -> bool:
        """Whether this is one that the generation holds."""
        at = int(np.searchsorted(self.sub_ids, number))
        return at < len(self.sub_ids) and int(self.sub_ids[at]) == number

    def without_rows(self, counts: NDArray[np.uint32], after: int) -> set[int]:
        """Those beyond a subId whose slots have no members."""
        absent = (counts[self.slots] == 0) & (self.sub_ids > after)
        return set(self.sub_ids[absent].tolist())

    def descriptors(self, numbers: Collection[int], most: int) -> dict[int, str]:
        """The descriptors of some that the generation holds, of at most so many."""
        asked = np.sort(np.fromiter(numbers, np.int64, len(numbers)))
        places = np.searchsorted(self.sub_ids, asked)
        known = places < len(self.sub_ids)
        known[known] = self.sub_ids[places[known]] == asked[known]
        wanted = set(asked[known][:most].tolist())
        if not wanted:
            return {}
        return {
            sub_id: descriptor
            for one in self._every()
            if (sub_id := one.terms.sub_id) is not None
            and sub_id in wanted
            and (descriptor := one.terms.descriptor) is not None
        }


async def subscription_snapshot(
    every: Every, up_to: int, arrived: Collection[int]
) -> SubscriptionSnapshot:
    """Sort out those that are in force now, when the generation is begun, some at a time.

    What ends meanwhile is dead at the switch. ``arrived`` are the slots given since: what is
    entered under one of them, also a subscription that was made again, is known to the generation
    already.
    """
    found: list[tuple[Int64s, SlotArray]] = []
    late: list[tuple[int, SubscriptionTerms]] = []
    in_force = iter(every())
    while some := list(islice(in_force, LOOKED_AT_ONCE)):
        numbers: list[int] = []
        slots: list[int] = []
        for one in some:
            slot, terms = one.slot, one.terms
            if terms.sub_id is None or slot < 0 or slot in arrived:
                continue
            if terms.sub_id > up_to:
                late.append((slot, terms))
            else:
                numbers.append(terms.sub_id)
                slots.append(slot)
        found.append((np.array(numbers, np.int64), np.array(slots, np.uint32)))
        await asyncio.sleep(0)
    sub_ids = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in found)])
    of_slots = np.concatenate([np.empty(0, np.uint32), *(slots for _, slots in found)])
    order = np.argsort(sub_ids)
    return SubscriptionSnapshot(sub_ids[order], of_slots[order], late, every)
