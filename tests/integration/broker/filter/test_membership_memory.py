"""What two million memberships cost in memory, and the look-ups that are remembered."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.peid_table import MOST_RECENT

PAIRS = 2_000_000
MOST_BYTES_PER_PAIR = 16
# Recent look-ups stand beside the pairs, and do not grow with them.
MOST_BYTES_OF_LOOK_UPS = 16 * 2**20


@pytest.mark.parametrize("universe", [2**40, 225_000], ids=["a peid in one", "a peid in nine"])
def test_a_pair_costs_at_most_16_bytes(universe: int) -> None:
    rng = np.random.default_rng(1)
    peids = rng.integers(0, universe, PAIRS)
    slots = np.repeat(np.arange(1_000, dtype=np.uint32), PAIRS // 1_000)
    order = np.lexsort((slots, peids))
    peids, slots = peids[order], slots[order]
    first = np.append(True, (np.diff(peids) != 0) | (np.diff(slots) != 0))
    peids, slots = peids[first], slots[first]
    published = np.unique(peids)[:MOST_RECENT].tolist()
    memberships = MemoryMemberships()
    tracemalloc.start()
    builder = memberships.begin_generation()
    builder.add_pairs(peids.copy(), slots.copy())
    memberships.switch(builder)
    del builder
    used, _ = tracemalloc.get_traced_memory()
    for peid in published:
        memberships.look_up(peid)
    with_look_ups, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(memberships) == len(peids)
    assert used / len(peids) <= MOST_BYTES_PER_PAIR
    assert 0 < with_look_ups - used <= MOST_BYTES_OF_LOOK_UPS
