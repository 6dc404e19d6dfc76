"""Members by slot, and the room that a loaded table gets after a switch."""

from __future__ import annotations

import numpy as np

from broker.filter.generation_builder import table_of_pairs
from broker.filter.memberships import SlotSizes
from broker.filter.memberships_memory import MemoryMemberships

SWEEP = 64


def test_numbers_grow_and_are_taken_once() -> None:
    sizes = SlotSizes()
    assert (sizes.highest, sizes.take(7)) == (-1, 0)
    sizes.add(7, 3)
    sizes.add(7, 2)
    assert sizes.highest == 7
    assert [sizes.take(slot) for slot in (7, 7, 6, 8)] == [5, 0, 0, 0]


def test_numbers_as_a_loader_gives_them() -> None:
    sizes = SlotSizes.of(np.array([4, 0, 9], np.uint32))
    assert sizes.highest == 2
    sizes.add(1, 1)
    assert [sizes.take(slot) for slot in range(4)] == [4, 1, 9, 0]
    assert SlotSizes.of(np.empty(0, np.uint32)).highest == -1


def test_a_loaded_table_gets_room_and_answers_as_before() -> None:
    peids = np.arange(50_000, dtype=np.int64)
    slots = (peids % 7).astype(np.uint32)
    table = table_of_pairs(peids, slots)
    look_up = table.look_up_by([])
    assert table.is_tight
    table.add(9, np.array([3, 60_000]))
    while table.loosen(SWEEP):
        pass
    assert not table.is_tight
    assert list(look_up(3)) == [3, 9]
    assert [list(look_up(peid)) for peid in (0, 49_999, 60_000)] == [[0], [5], [9]]


def test_sweeping_ends_when_the_old_table_is_gone_and_the_new_one_has_room() -> None:
    memberships = MemoryMemberships()
    memberships.add(0, np.arange(30_000, dtype=np.int64))
    builder = memberships.begin_generation()
    builder.add_pairs(np.arange(30_000, dtype=np.int64), np.full(30_000, 1, np.uint32))
    memberships.switch(builder)
    steps = 0
    while memberships.sweep(SWEEP):
        steps += 1
        assert steps < 1_000
    assert steps > 1
    assert not memberships._table.is_tight
    assert list(memberships.look_up(5)) == [1]
