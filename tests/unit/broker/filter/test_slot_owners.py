"""Owners of slots, to which remembered look-ups lead while subscriptions come and go."""

from __future__ import annotations

import numpy as np

from broker.filter.memberships import SlotOwner
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from spatial_udfs.entity_table import Int64s

_GENERATION = 7


def numbers(*values: int) -> Int64s:
    return np.array(values, np.int64)


def test_an_owner_reads_as_its_slot_alone() -> None:
    slot_owner = SlotOwner(12)
    assert list(slot_owner) == [12]
    assert len(slot_owner) == 1
    assert slot_owner[0] == slot_owner[-1] == 12
    assert 12 in slot_owner
    assert 0 not in slot_owner


def test_one_slot_is_answered_by_its_owner_and_more_by_their_numbers() -> None:
    memberships = MemoryMemberships()
    memberships.slot_owners += [SlotOwner(0), SlotOwner(1)]
    memberships.add(0, numbers(3, 4))
    assert memberships.look_up(3) is memberships.slot_owners[0]
    memberships.add(1, numbers(4))
    assert memberships.look_up(3) is memberships.slot_owners[0]
    assert list(memberships.look_up(4)) == [0, 1]
    assert list(memberships.look_up(5)) == []


def test_the_next_generation_leads_to_the_same_owners() -> None:
    memberships = MemoryMemberships()
    memberships.slot_owners.append(SlotOwner(0))
    memberships.add(0, numbers(3))
    builder = memberships.begin_generation()
    builder.add(0, numbers(4))
    memberships.switch(builder)
    assert memberships.look_up(4) is memberships.slot_owners[0]
    assert list(memberships.look_up(3)) == []


def test_what_is_read_of_redis_leads_to_owners_too() -> None:
    memberships = RedisMemberships()
    memberships.slot_owners += [SlotOwner(0), SlotOwner(1)]
    memberships.switch(memberships.begin_generation(), _GENERATION)
    answers = memberships.keep(_GENERATION, {3: (1,), 4: (0, 1), 5: ()})
    assert memberships.look_up(3) is answers[3] is memberships.slot_owners[1]
    assert memberships.look_up(4) == (0, 1)
    assert memberships.look_up(5) == ()
    # A late arrival stands beside what is remembered, whatever that is.
    memberships.add(0, numbers(3, 5))
    assert memberships.look_up(3) == [0, 1]
    assert memberships.look_up(5) is memberships.slot_owners[0]
