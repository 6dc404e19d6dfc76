"""Mode ``redis`` against a plain model: whatever is remembered, answers are those of now."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.filter.memberships_redis import RedisMemberships

PEIDS = range(12)
peid_sets = st.sets(st.sampled_from(PEIDS))


class RedisMembershipsMachine(RuleBasedStateMachine):
    """Slots with their members; those of the generation are read, the others were added."""

    def __init__(self) -> None:
        super().__init__()
        self.tested = RedisMemberships(most_entities=6, most_slots=20)
        # Members by slot: what a generation in Redis holds, and what came later.
        self.covered: dict[int, set[int]] = {}
        self.late: dict[int, set[int]] = {}
        self.generation = 0
        self.next_slot = 0
        self.free: list[int] = []

    def new_slot(self) -> int:
        """As the core gives slots: again only those that are said to be free."""
        if self.tested.reusable:
            slot = self.tested.reusable.pop()
            assert slot not in self.covered
            assert slot not in self.late
            return slot
        self.next_slot += 1
        return self.next_slot - 1

    def read(self, peid: int) -> list[int]:
        """What Redis says, by the slots that live."""
        return sorted(slot for slot, members in self.covered.items() if peid in members)

    @rule(members=peid_sets)
    def add(self, members: set[int]) -> None:
        slot = self.new_slot()
        self.late[slot] = members
        self.tested.add(slot, np.array(sorted(members), np.int64))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        living = sorted([*self.covered, *self.late])
        if living:
            slot = data.draw(st.sampled_from(living))
            self.covered.pop(slot, None)
            self.late.pop(slot, None)
            self.tested.remove(slot)

    @rule(peids=st.sets(st.sampled_from(PEIDS), min_size=1))
    def look_up(self, peids: set[int]) -> None:
        unknown = [peid for peid in peids if self.tested.look_up(peid) is None]
        if unknown:
            found = {peid: self.read(peid) for peid in unknown}
            answers = self.tested.keep(self.generation, found)
            assert {peid: self.living(slots) for peid, slots in answers.items()} == {
                peid: self.expected(peid) for peid in unknown
            }

    @rule(budget=st.integers(1, 5))
    def sweep(self, budget: int) -> None:
        self.tested.sweep(budget)

    @rule()
    def clean_everything(self) -> None:
        """A pass is only begun when it pays; here it always does."""
        self.tested._late._table.dead_pairs += 10_000
        while self.tested.sweep(3):
            self.tested._late._table.dead_pairs = 0

    @rule(absorb=st.booleans(), late_while_built=peid_sets)
    def switch(self, absorb: bool, late_while_built: set[int]) -> None:
        """Another generation, which holds what came later, or everything came later again."""
        builder = self.tested.begin_generation()
        everything = self.covered | self.late
        if not absorb:
            for slot, members in everything.items():
                builder.add(slot, np.array(sorted(members), np.int64))
        self.add(late_while_built)
        added = max(self.late)
        if absorb:
            self.late = {added: self.late[added]} if added not in everything else {}
            self.covered = everything
            self.generation += 1
            self.tested.switch(builder, self.generation)
        else:
            self.late = everything | {added: self.late[added]}
            self.covered = {}
            self.tested.switch(builder, None)

    @invariant()
    def answers_are_right(self) -> None:
        for peid in PEIDS:
            slots = self.tested.look_up(peid)
            if slots is not None:
                assert list(slots) == sorted(set(slots))
                assert self.living(slots) == self.expected(peid)

    @invariant()
    def what_is_remembered_is_bounded(self) -> None:
        assert len(self.tested) <= 12
        remembered = sum(map(len, self.tested._remembered.values()))
        assert self.tested._remembered_slots == remembered

    def living(self, slots: object) -> list[int]:
        return [slot for slot in slots if slot in self.covered or slot in self.late]  # type: ignore[attr-defined]

    def expected(self, peid: int) -> list[int]:
        both = {**self.covered, **self.late}
        return sorted(slot for slot, members in both.items() if peid in members)


def test_a_slot_is_free_only_when_nothing_remembered_names_it() -> None:
    tested = RedisMemberships()
    tested.switch(tested.begin_generation(), 1)
    tested.keep(1, {peid: [0, 7] if peid % 2 else [7] for peid in range(10)})
    tested.remove(0)
    tested._late._table.dead_pairs += 10_000
    for _ in range(100):
        tested.sweep(3)
        tested._late._table.dead_pairs = 0
        named = {slot for peid in range(10) for slot in tested.look_up(peid) or ()}
        assert not named.intersection(tested.reusable)
    assert tested.reusable == [0]
    assert [peid for peid in range(10) if tested.look_up(peid) is None] == [1, 3, 5, 7, 9]


TestRedisMemberships = RedisMembershipsMachine.TestCase
TestRedisMemberships.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
