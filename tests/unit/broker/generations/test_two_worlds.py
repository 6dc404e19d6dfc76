"""Members of two worlds: what is entered while another generation is built, and the step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from broker.core.subscribe.subscribe_queue import CHUNK
from broker.filter.generation_builder import TableAssembly, cut_into_regions, table_of_pairs
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from broker.filter.peid_table import RESIDUES
from broker.generations.loader_worker import Comparison
from redis_link.sets.set_reader import Members
from spatial_udfs.entity_table import Int64s
from tests.broker_core.harness import Harness
from tests.broker_core.heavy_subscribe import about, finish, near, switch_to, turn

Memberships = MemoryMemberships | RedisMemberships


@pytest.fixture(params=[MemoryMemberships, RedisMemberships], ids=["memory", "redis"])
def memberships(request: pytest.FixtureRequest) -> Memberships:
    make: Callable[[], Memberships] = request.param
    return make()


def numbers(*values: int) -> Int64s:
    return np.array(values, np.int64)


def test_each_world_has_its_members(memberships: Memberships) -> None:
    builder = memberships.begin_generation(is_other_world=True)
    memberships.add(0, numbers(1, 2), numbers(2, 3))
    assert [list(memberships.look_up(peid) or ()) for peid in (1, 2, 3)] == [[0], [0], []]
    switch_to(memberships, builder)
    assert [list(memberships.look_up(peid) or ()) for peid in (1, 2, 3)] == [[], [0], [0]]


def test_the_step_is_refused_while_members_are_unknown(memberships: Memberships) -> None:
    builder = memberships.begin_generation(is_other_world=True)
    memberships.add(0, numbers(1))
    memberships.add(1, numbers(1))
    assert builder.unsettled == {0, 1}
    with pytest.raises(ValueError, match="not known in the coming world"):
        switch_to(memberships, builder)
    builder.add(0, numbers(5))
    memberships.remove(1)
    switch_to(memberships, builder)
    assert [list(memberships.look_up(peid) or ()) for peid in (1, 5)] == [[], [0]]


def test_in_the_same_world_members_stay(memberships: Memberships) -> None:
    builder = memberships.begin_generation()
    memberships.add(0, numbers(1))
    switch_to(memberships, builder)
    assert list(memberships.look_up(1) or ()) == [0]


def test_a_large_one_that_is_half_entered_is_resolved_again(memberships: Memberships) -> None:
    harness = Harness(memberships=memberships)
    harness.neighborhoods = {"heavy": range(3 * CHUNK)}
    client = harness.connect("c")
    client.send(near("heavy"))
    turn(harness)
    builder = memberships.begin_generation(is_other_world=True)
    turn(harness)
    harness.neighborhoods = {"heavy": range(CHUNK, 4 * CHUNK)}
    switch_to(memberships, builder)
    finish(harness, client)
    client.take()
    client.send(about(0), about(CHUNK), about(4 * CHUNK - 1))
    assert len(client.messages()) == 2
    assert harness.core.index.count == 1


def test_blocks_make_the_table_that_all_pairs_make() -> None:
    rng = np.random.default_rng(5)
    # Some residues without pairs, some with very many.
    peids = np.concatenate(
        [rng.integers(0, 2**62, 20_000), rng.integers(0, 50, 3_000) * RESIDUES + 7]
    )
    slots = rng.integers(0, 500, len(peids)).astype(np.uint32)
    pairs = np.unique(np.stack([peids, slots.astype(np.int64)]), axis=1)
    peids, slots = pairs[0], pairs[1].astype(np.uint32)
    whole = table_of_pairs(peids, slots)
    assembly = TableAssembly()
    ranges = peids % RESIDUES * 16 // RESIDUES
    for number in range(16):
        chosen = ranges == number
        assembly.add(cut_into_regions(peids[chosen], slots[chosen]))
    pieces = assembly.finish(np.bincount(slots).astype(np.uint32))
    assert pieces.pairs == whole.pairs == len(peids)
    asked = [*np.unique(peids).tolist(), 1, RESIDUES - 1]
    in_pieces, in_whole = pieces.look_up_by([]), whole.look_up_by([])
    for peid in asked:
        assert list(in_pieces(peid)) == list(in_whole(peid))
        assert list(in_whole(peid)) == sorted(slots[peids == peid].tolist())
    # It is a table like any other.
    pieces.add(900, numbers(3, 4))
    assert 900 in in_pieces(3)


def test_two_generations_compared() -> None:
    def members(sets: dict[int, list[int]]) -> Members:
        sizes = [len(one) for one in sets.values()]
        offsets = np.array([0, *np.cumsum(sizes)], np.int64)
        return Members(
            numbers(*sets), offsets, numbers(*(one for group in sets.values() for one in group))
        )

    compared = Comparison(numbers(2, 5, 9))
    compared.add([members({1: [2, 5], 4: [7, 9]})], [members({1: [5], 8: [2, 9]})])
    compared.add([members({3: [9]})], [members({})])
    assert compared.gained.tolist() == [1, 0, 2]
    assert compared.lost.tolist() == [1, 0, 1]
