"""Reads membership sets: their members as arrays, their sizes, and what they cost in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.sets.packing import (
    membership_keys,
    packed,
    packed_reads,
    packed_script,
    packed_words,
)
from redis_link.sets.pair_arrays import Int64s, Members
from redis_link.sets.shard_pipe import ShardPipe
from schemas.errors import GenerationError, RedisLinkError
from schemas.redis_keys import SHARD_COUNT, shard_index_key

# Shards that are held at once, and sets that are asked for in one part.
SHARDS_AT_ONCE: Final = 32
SETS_IN_PART: Final = 512
# The memory of a generation is measured on a sample of its sets.
SETS_IN_SAMPLE: Final = 5_000
FEWEST_SHARDS: Final = 16
# KEYS: sets. One answer for many sets, because most of the time goes into taking answers.
SIZES: Final = """
local sizes = {}
for place, key in ipairs(KEYS) do sizes[place] = redis.call('SCARD', key) end
return sizes
"""

# Sizes of sets, and their members one after the other.
Numbers: TypeAlias = tuple[Int64s, Int64s]

_NO_NUMBER: Final = "a membership set holds something that is no number"


def read_shards(client: RedisClient, generation: int, shards: Iterable[int]) -> Iterator[Members]:
    """Yield the sets of some shards at a time, in memory that does not grow with their number.

    The caller asks afterwards whether the generation is still there: one that is being removed
    looks smaller than it is.
    """
    remaining = iter(shards)
    while chosen := list(islice(remaining, SHARDS_AT_ONCE)):
        yield read_sets(client, generation, *read_index(client, generation, chosen))


def read_sets(client: RedisClient, generation: int, of_shard: Int64s, peids: Int64s) -> Members:
    """Return the sets of the given peids, which stand shard by shard; absent sets are empty."""
    commands = packed_reads(["SMEMBERS"], membership_keys(generation, of_shard, peids))
    # Each part has its place: after a failure parts may be answered in another order.
    parts: dict[int, Numbers] = {}
    with ShardPipe(client) as pipe:
        for shard, first, last in shard_runs(of_shard):
            for at in range(first, last, SETS_IN_PART):
                after = min(at + SETS_IN_PART, last)
                keep = partial(_keep_numbers, parts, at)
                pipe.submit(shard, commands.part(at, after), after - at, keep)
    sizes = _concatenated(parts[at][0] for at in sorted(parts))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    sub_ids = _concatenated(parts[at][1] for at in sorted(parts))
    return Members(peids, offsets, sub_ids)


def read_sizes(client: RedisClient, generation: int, of_shard: Int64s, peids: Int64s) -> Int64s:
    """Return the number of subIds in each set; peids stand shard by shard."""
    keys = packed_words(membership_keys(generation, of_shard, peids))
    sizes = np.zeros(len(peids), np.int64)

    def keep(at: int, replies: list[list[int]]) -> None:
        sizes[at : at + len(replies[0])] = replies[0]

    with ShardPipe(client) as pipe:
        for shard, first, last in shard_runs(of_shard):
            for at in range(first, last, SETS_IN_PART):
                after = min(at + SETS_IN_PART, last)
                asked = packed_script(SIZES, keys.part(at, after), after - at)
                pipe.submit(shard, asked, 1, partial(keep, at))
    return sizes


def read_index(
    client: RedisClient, generation: int, shards: Iterable[int]
) -> tuple[Int64s, Int64s]:
    """Return shard and peid of every set, by shard and ascending within it."""
    answers: dict[int, Numbers] = {}
    with ShardPipe(client) as pipe:
        for shard in shards:
            payload = packed("SMEMBERS", shard_index_key(generation, shard))
            pipe.submit(shard, payload, 1, partial(_keep_numbers, answers, shard))
    sizes = _concatenated(sizes for sizes, _ in answers.values())
    peids = _concatenated(peids for _, peids in answers.values())
    of_shard = np.repeat(np.array(list(answers), np.int64), sizes)
    order = np.lexsort((peids, of_shard))
    return of_shard[order], peids[order]


def shard_runs(shards: Int64s) -> Iterator[tuple[int, int, int]]:
    """Yield each shard with the begin and the end of its range."""
    bounds = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
    for first, last in pairwise(bounds):
        if first < last:
            yield int(shards[first]), first, last


def member_numbers(replies: Sequence[Sequence[bytes]]) -> Numbers:
    """Return sizes and members of the sets in answers to SMEMBERS.

    Redis holds each subId as a decimal number. Anything else in a set is an error.
    """
    sizes = np.fromiter(map(len, replies), np.int64, len(replies))
    members = list(chain.from_iterable(replies))
    # ``int`` also takes signs, blanks and underscores; no member of ours has them.
    if members and not b"".join(members).isdigit():
        raise GenerationError(_NO_NUMBER)
    try:
        return sizes, np.fromiter(map(int, members), np.int64, len(members))
    except (ValueError, OverflowError) as error:
        raise GenerationError(_NO_NUMBER) from error


def _keep_numbers(kept: dict[int, Numbers], at: int, replies: Sequence[Sequence[bytes]]) -> None:
    kept[at] = member_numbers(replies)


def _concatenated(arrays: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def bytes_per_pair(client: RedisClient, generation: int, peids: int) -> float | None:
    """Return the bytes of keys, sets and indexes a pair; None where Redis does not tell."""
    wanted = SHARD_COUNT * SETS_IN_SAMPLE // max(peids, 1)
    stride = max(1, SHARD_COUNT // max(wanted, FEWEST_SHARDS))
    costs: list[Any] = []
    sizes: list[Any] = []
    try:
        of_shard, entities = read_index(client, generation, range(0, SHARD_COUNT, stride))
        keys = membership_keys(generation, of_shard, entities)
        usages, counts = packed_reads(["MEMORY", "USAGE"], keys), packed_reads(["SCARD"], keys)
        with ShardPipe(client) as pipe:
            for shard, first, last in shard_runs(of_shard):
                index = packed("MEMORY", "USAGE", shard_index_key(generation, shard))
                pipe.submit(shard, index, 1, costs.extend)
                pipe.submit(shard, usages.part(first, last), last - first, costs.extend)
                pipe.submit(shard, counts.part(first, last), last - first, sizes.extend)
    except RedisLinkError:  # hosted servers forbid MEMORY, or do not know it
        return None
    pairs = sum(sizes)
    return sum(filter(None, costs)) / pairs if pairs else None
