"""What two million memberships cost in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from broker.memberships_memory import MemoryMemberships

PAIRS = 2_000_000
MOST_BYTES_PER_PAIR = 16


@pytest.mark.parametrize("universe", [2**40, 225_000], ids=["a peid in one", "a peid in nine"])
def test_a_pair_costs_at_most_16_bytes(universe: int) -> None:
    rng = np.random.default_rng(1)
    peids = rng.integers(0, universe, PAIRS)
    slots = np.repeat(np.arange(1_000, dtype=np.uint32), PAIRS // 1_000)
    pairs = np.unique(np.stack([peids, slots.astype(np.int64)], axis=1), axis=0)
    memberships = MemoryMemberships()
    tracemalloc.start()
    builder = memberships.begin_generation()
    builder.add_pairs(pairs[:, 0].copy(), pairs[:, 1].astype(np.uint32))
    memberships.switch(builder)
    del builder
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(memberships) == len(pairs)
    assert used / len(pairs) <= MOST_BYTES_PER_PAIR
