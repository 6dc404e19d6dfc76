"""The compact table of memberships against a plain dictionary of sets."""

from __future__ import annotations

from collections import defaultdict
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.filter import generation_builder, peid_table
from broker.filter.generation_builder import GenerationBuilder
from broker.filter.memberships_memory import MemoryMemberships
from spatial_udfs.entity_table import Int64s

# Few enough to meet again; some share a residue, some are as large as a peid can be.
PEIDS = st.sampled_from(
    [*range(40), *(number * peid_table.RESIDUES + 3 for number in range(40)), 2**63 - 1, 2**62]
)
MEMBERS = st.sets(PEIDS, max_size=60)


def array_of(members: set[int]) -> Int64s:
    return np.array(sorted(members), np.int64)


class Memberships(RuleBasedStateMachine):
    """Slots come, go and come again; generations replace everything."""

    def __init__(self) -> None:
        super().__init__()
        # Small, so that regions are cut and passes start with few pairs.
        self.patches = [
            patch.object(peid_table, "MOST_PAIRS", 8),
            patch.object(generation_builder, "AIMED_PAIRS", 5),
            patch.object(peid_table, "LEAST_DEAD", 3),
            # Room for all that is looked up here while little is entered, and not for more.
            patch.object(peid_table, "MOST_RECENT", 60),
            patch.object(peid_table, "MOST_SLOTS_REMEMBERED", 3),
        ]
        for one in self.patches:
            one.start()
        self.memberships = MemoryMemberships()
        self.model: dict[int, set[int]] = {}
        self.next_slot = 0
        self.builder: GenerationBuilder | None = None
        self.planned: dict[int, set[int]] = {}
        self.late: dict[int, set[int]] = {}
        self.unsettled: set[int] = set()
        self.has_folded = False

    def teardown(self) -> None:
        for one in self.patches:
            one.stop()

    def new_slot(self) -> int:
        if self.memberships.reusable:
            slot = self.memberships.reusable.pop()
            assert slot not in self.model
            return slot
        self.next_slot += 1
        return self.next_slot - 1

    @rule(members=MEMBERS, coming=st.none() | MEMBERS)
    def add(self, members: set[int], coming: set[int] | None) -> None:
        slot = self.new_slot()
        known = None if coming is None else array_of(coming)
        self.memberships.add(slot, array_of(members), known)
        self.model[slot] = members
        if self.builder is None:
            return
        if not self.builder.is_other_world:
            self.late[slot] = members
        elif coming is None:
            self.unsettled.add(slot)
        else:
            self.late[slot] = coming

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(sorted(self.model)))
        self.memberships.remove(slot)
        del self.model[slot]
        self.planned.pop(slot, None)
        self.late.pop(slot, None)
        self.unsettled.discard(slot)

    @rule(budget=st.integers(1, 5))
    def sweep(self, budget: int) -> None:
        self.memberships.sweep(budget)

    @rule(is_other_world=st.booleans())
    def begin_generation(self, is_other_world: bool) -> None:
        self.builder = self.memberships.begin_generation(is_other_world=is_other_world)
        self.planned, self.late, self.unsettled = {}, {}, set()
        self.has_folded = False

    @precondition(lambda self: self.builder is not None)
    @rule(most=st.integers(1, 20))
    def fold(self, most: int) -> None:
        assert self.builder is not None
        self.builder.fold_late(most)
        self.has_folded = True

    @precondition(lambda self: self.builder is not None and self.model)
    @rule(data=st.data(), members=MEMBERS, early=st.booleans())
    def plan(self, data: st.DataObject, members: set[int], early: bool) -> None:
        assert self.builder is not None
        slot = data.draw(st.sampled_from(sorted(self.model)))
        if early:
            # This enters the members of all slots that came meanwhile.
            self.builder.build()
            self.has_folded = True
        if slot in self.planned or (self.has_folded and slot in self.late):
            return
        self.builder.add(slot, array_of(members))
        self.planned[slot] = members
        self.late.pop(slot, None)
        self.unsettled.discard(slot)

    @precondition(lambda self: self.builder is not None)
    @rule()
    def switch(self) -> None:
        assert self.builder is not None
        assert self.builder.unsettled == self.unsettled
        for slot in self.unsettled:
            self.builder.add(slot, array_of({slot}))
            self.planned[slot] = {slot}
        self.memberships.switch(self.builder)
        self.model = {
            slot: self.planned.get(slot, self.late.get(slot, set())) for slot in self.model
        }
        self.builder = None

    @precondition(lambda self: self.builder is not None)
    @rule()
    def abandon(self) -> None:
        self.memberships.abandon()
        self.builder = None

    @invariant()
    def look_ups_agree(self) -> None:
        expected: defaultdict[int, list[int]] = defaultdict(list)
        for slot, members in sorted(self.model.items()):
            for peid in members:
                expected[peid].append(slot)
        for peid in [*range(0, 45, 3), 3, peid_table.RESIDUES + 3, 2**63 - 1, 2**62, *expected]:
            found = list(self.memberships.look_up(peid))
            assert found == sorted(set(found))
            # Slots that were removed may still be named: the core knows that they are vacant.
            assert [slot for slot in found if slot in self.model] == expected.get(peid, [])

    @invariant()
    def free_slots_are_named_by_no_look_up(self) -> None:
        free = set(self.memberships.reusable)
        for peid in (*range(40), 2**63 - 1):
            assert free.isdisjoint(self.memberships.look_up(peid))


Memberships.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestMemberships = Memberships.TestCase


def test_cleaning_ends_and_frees_everything() -> None:
    memberships = MemoryMemberships()
    for slot in range(300):
        memberships.add(slot, np.arange(slot, slot + 100))
    for slot in range(0, 300, 2):
        memberships.remove(slot)
    steps = 0
    while memberships.sweep(10):
        steps += 1
    assert steps > 3
    assert sorted(memberships.reusable) == list(range(0, 300, 2))
    assert len(memberships) == 150 * 100
    assert list(memberships.look_up(150)) == list(range(51, 151, 2))


def test_empty_neighborhoods_do_not_pile_up() -> None:
    memberships = MemoryMemberships()
    none = np.empty(0, np.int64)
    for slot in range(peid_table.LEAST_DEAD + 2):
        memberships.add(slot, none)
        memberships.remove(slot)
    while memberships.sweep(64):
        pass
    assert len(memberships.reusable) == peid_table.LEAST_DEAD + 2


def test_members_that_are_in_the_table_are_not_replaced_in_silence() -> None:
    memberships = MemoryMemberships()
    builder = memberships.begin_generation()
    memberships.add(0, array_of({7}))
    builder.build()
    with pytest.raises(ValueError, match="in the table already"):
        builder.add(0, array_of(set()))
