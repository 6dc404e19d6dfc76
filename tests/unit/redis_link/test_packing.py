"""Pairs as commands: the same bytes that redis-py packs, the same order that numpy sorts."""

from __future__ import annotations

import hiredis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

from redis_link.sets import set_writer
from redis_link.sets.packing import membership_keys, packed, packed_reads, packed_sadds
from redis_link.sets.pair_arrays import (
    Int64s,
    Tally,
    by_block,
    group_starts,
    members_of,
    pair_hashes,
    sorted_distinct,
    tally_of,
    tally_of_sets,
)
from redis_link.sets.set_writer import write_pairs
from schemas.redis_keys import SHARD_COUNT, membership_key, shard_index_key, shard_of

LARGEST = 2**63 - 1
# SELECT xxhash64(peid, subId) of Spark 4.0 for the pairs of the test below.
SPARK_HASHES = [
    -9199931545335556226,
    -8198029865082835910,
    298155558453119914,
    3582563888758909168,
]
NUMBERS = st.one_of(st.integers(0, 40), st.integers(0, 2**17), st.integers(0, LARGEST))


class CollectingPipe:
    """Stands where the way to Redis begins: keeps the commands in the order of their shard."""

    def __init__(self) -> None:
        self.commands: list[tuple[int, list[bytes]]] = []
        self.since_flush: set[bytes] = set()
        self.acknowledged: set[bytes] = set()

    def submit(self, shard: int, payload: bytes, replies: int) -> None:
        reader = hiredis.Reader()
        reader.feed(payload)
        parsed = [reader.gets() for _ in range(replies)]
        assert reader.gets() is False, "more commands than the part says"
        assert False not in parsed, "fewer commands than the part says"
        self.commands += [(shard, command) for command in parsed]
        self.since_flush |= {command[1] for command in parsed}

    def flush(self) -> None:
        self.acknowledged |= self.since_flush
        self.since_flush = set()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Int64s, Int64s]:
    count = draw(st.integers(0, 60))
    arrays = [draw(drawn.arrays(np.int64, count, elements=NUMBERS)) for _ in range(2)]
    return arrays[0], arrays[1]


def as_set(peids: Int64s, sub_ids: Int64s) -> set[tuple[int, int]]:
    return set(zip(peids.tolist(), sub_ids.tolist(), strict=True))


@given(pairs())
def test_sorted_distinct_is_what_python_sorts(given_pairs: tuple[Int64s, Int64s]) -> None:
    expected = sorted(as_set(*given_pairs), key=lambda pair: (shard_of(pair[0]), pair))
    peids, sub_ids = sorted_distinct(*given_pairs)
    assert list(zip(peids.tolist(), sub_ids.tolist(), strict=True)) == expected


@pytest.mark.parametrize("first_sub_id", [1, LARGEST - 70_000])
def test_sorting_many_peids_with_small_and_with_large_sub_ids(first_sub_id: int) -> None:
    """Large ones do not fit into one integer with the rank of a peid."""
    random = np.random.default_rng(5)
    peids = random.permutation(70_000).astype(np.int64)
    sorted_peids, sub_ids = sorted_distinct(peids, peids + first_sub_id)
    order = np.lexsort((peids, peids % SHARD_COUNT))
    assert np.array_equal(sorted_peids, peids[order])
    assert np.array_equal(sub_ids, sorted_peids + first_sub_id)


@given(pairs(), st.integers(1, SHARD_COUNT))
def test_by_block_loses_and_repeats_nothing(
    given_pairs: tuple[Int64s, Int64s], blocks: int
) -> None:
    found = []
    for block, peids, sub_ids in by_block(*given_pairs, blocks):
        assert {shard_of(peid) * blocks // SHARD_COUNT for peid in peids.tolist()} == {block}
        found += list(zip(peids.tolist(), sub_ids.tolist(), strict=True))
    given_peids, given_sub_ids = given_pairs
    assert sorted(found) == sorted(zip(given_peids.tolist(), given_sub_ids.tolist(), strict=True))


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=5), min_size=1, max_size=8))
def test_packed_sadds_are_the_bytes_of_single_commands(groups: list[list[int]]) -> None:
    keys = [f"key {number} é" for number in range(len(groups))]
    members = np.array([member for group in groups for member in group], np.int64)
    begins = np.cumsum([0, *map(len, groups[:-1])])
    commands = packed_sadds(pa.array(keys), begins, members)
    expected = [packed("SADD", key, *group) for key, group in zip(keys, groups, strict=True)]
    assert len(commands) == len(groups)
    assert [commands.part(at, at + 1) for at in range(len(groups))] == expected
    assert commands.part(0, len(groups)) == b"".join(expected)


def test_one_command_is_what_the_client_library_packs() -> None:
    words = ("SADD", "spaps:{1}:g2:3", 4, 0, LARGEST)
    assert packed(str(words[0]), *words[1:]) == hiredis.pack_command(words)


def test_packed_reads_carry_their_words_in_order() -> None:
    commands = packed_reads(["MEMORY", "USAGE"], pa.array(["a", "bc"]), ["SAMPLES", "0"])
    expected = [packed("MEMORY", "USAGE", key, "SAMPLES", "0") for key in ("a", "bc")]
    assert [commands.part(at, at + 1) for at in range(2)] == expected


def test_nothing_packs_into_nothing() -> None:
    nothing = np.empty(0, np.int64)
    assert len(packed_reads(["SMEMBERS"], membership_keys(1, nothing, nothing))) == 0
    pipe = CollectingPipe()
    assert write_pairs(pipe, 1, nothing, nothing) == Tally()  # type: ignore[arg-type]
    assert pipe.commands == []


@given(pairs(), st.integers(1, 5))
def test_commands_hold_the_pairs_and_name_every_set_before_it(
    given_pairs: tuple[Int64s, Int64s], longest: int
) -> None:
    pipe = CollectingPipe()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(set_writer, "MEMBERS_IN_COMMAND", longest)
        patch.setattr(set_writer, "BATCH_BYTES", 50 * longest)
        tally = write_pairs(pipe, 7, *given_pairs)  # type: ignore[arg-type]
    expected = as_set(*given_pairs)
    indexes = {shard_index_key(7, shard_of(peid)).encode() for peid, _ in expected}
    keys = {membership_key(7, peid).encode(): peid for peid, _ in expected}
    named: set[int] = set()
    found: set[tuple[int, int]] = set()
    for shard, (word, key, *members) in pipe.commands:
        assert word == b"SADD"
        assert len(members) <= longest
        numbers = [int(member) for member in members]
        assert numbers == sorted(numbers), "not in the order in which integer sets grow"
        if key in indexes:
            assert key == shard_index_key(7, shard).encode()
            named |= set(numbers)
        else:
            assert keys[key] in named, "a set that nobody could find after a kill"
            assert shard == shard_of(keys[key])
            found |= {(keys[key], number) for number in numbers}
    assert found == expected
    assert pipe.acknowledged == indexes, "a refused index would not stop the sets"
    assert tally.pairs == len(expected)
    assert tally.peids == len(named)


def test_hash_is_the_xxhash64_of_spark() -> None:
    peids = np.array([0, 1, 4711, LARGEST], np.int64)
    sub_ids = np.array([0, 2, 1, LARGEST], np.int64)
    assert pair_hashes(peids, sub_ids).astype(np.int64).tolist() == SPARK_HASHES


@given(pairs(), pairs())
def test_tallies_add_up_and_do_not_depend_on_order(
    first: tuple[Int64s, Int64s], second: tuple[Int64s, Int64s]
) -> None:
    both = [np.concatenate(arrays)[::-1] for arrays in zip(first, second, strict=True)]
    together = tally_of(*first, 1) + tally_of(*second, 2)
    assert together == tally_of(both[0], both[1], 3)


@given(pairs())
def test_sets_have_the_tally_of_their_pairs(given_pairs: tuple[Int64s, Int64s]) -> None:
    members = members_of(*given_pairs)
    peids, sub_ids = sorted_distinct(*given_pairs)
    assert members.tally() == tally_of(peids, sub_ids, len(set(peids.tolist())))
    with_an_empty_one = np.append(members.offsets, members.offsets[-1:])
    more = tally_of_sets(np.append(members.peids, 5), with_an_empty_one, members.sub_ids)
    assert more == members.tally()


@given(pairs(), st.data())
def test_a_changed_pair_changes_the_checksum(
    given_pairs: tuple[Int64s, Int64s], data: st.DataObject
) -> None:
    peids, sub_ids = given_pairs
    if not len(peids):
        return
    at = data.draw(st.integers(0, len(peids) - 1))
    changed = sub_ids.copy()
    changed[at] ^= 1 << data.draw(st.integers(0, 62))
    assert tally_of(peids, changed, 0).checksum() != tally_of(peids, sub_ids, 0).checksum()


@given(st.lists(st.integers(0, 3), max_size=12))
def test_group_starts_are_where_values_change(values: list[int]) -> None:
    ordered = np.sort(np.array(values, np.int64))
    starts = group_starts(ordered)
    assert ordered[starts].tolist() == sorted(set(values))
    assert starts.tolist() == [ordered.tolist().index(value) for value in sorted(set(values))]
