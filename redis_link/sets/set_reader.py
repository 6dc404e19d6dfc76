"""Membership sets out of Redis: a whole generation as arrays, some shards at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice, pairwise
from operator import setitem
from typing import Final, TypeAlias

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.sets.member_sets import Members
from redis_link.sets.packing import (
    membership_keys,
    packed,
    packed_reads,
    packed_script,
    packed_words,
)
from redis_link.sets.shard_pipe import ShardPipe
from redis_link.sets.tally import Int64s
from schemas.redis_keys import SHARD_COUNT, shard_index_key

# Shards that are held at once, and sets that are asked for in one part.
SHARDS_AT_ONCE: Final = 32
SETS_IN_PART: Final = 512
# One answer for many sets: taking answers is what counting costs. KEYS: sets.
SIZES: Final = """
local sizes = {}
for place, key in ipairs(KEYS) do sizes[place] = redis.call('SCARD', key) end
return sizes
"""

# Sizes of sets, and their members.
Numbers: TypeAlias = tuple[Int64s, Int64s]


def read_generation(client: RedisClient, generation: int) -> Iterator[tuple[int, Int64s]]:
    """Every peid of a generation that has subIds, with these."""
    for members in read_shards(client, generation, range(SHARD_COUNT)):
        offsets = members.offsets.tolist()
        for at, peid in enumerate(members.peids.tolist()):
            if offsets[at] < offsets[at + 1]:
                yield peid, members.sub_ids[offsets[at] : offsets[at + 1]]


def read_shards(client: RedisClient, generation: int, shards: Iterable[int]) -> Iterator[Members]:
    """The given shards of a generation; what is held at once does not grow with their number.

    Whether the generation is still there must be asked afterwards: one that is removed
    meanwhile looks as if it were smaller.
    """
    remaining = iter(shards)
    while chosen := list(islice(remaining, SHARDS_AT_ONCE)):
        yield read_sets(client, generation, *read_index(client, generation, chosen))


def read_sets(client: RedisClient, generation: int, of_shard: Int64s, peids: Int64s) -> Members:
    """The sets of the given peids, which stand shard by shard; absent ones are empty."""
    commands = packed_reads(["SMEMBERS"], membership_keys(generation, of_shard, peids))
    # Each part has its place: after a failure parts may be answered in another order.
    parts: dict[int, Numbers] = {}
    with ShardPipe(client, numbers=True) as pipe:
        for shard, first, last in shard_runs(of_shard):
            for at in range(first, last, SETS_IN_PART):
                after = min(at + SETS_IN_PART, last)
                keep = partial(setitem, parts, at)
                pipe.submit(shard, commands.part(at, after), after - at, keep)
    sizes = _concatenated(parts[at][0] for at in sorted(parts))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    sub_ids = _concatenated(parts[at][1] for at in sorted(parts))
    return Members(peids, offsets, sub_ids)


def read_sizes(client: RedisClient, generation: int, of_shard: Int64s, peids: Int64s) -> Int64s:
    """How many subIds each of the sets has; peids stand shard by shard."""
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
    """The peids of the shards, shard by shard and ascending in each, with the shard of each."""
    answers: dict[int, Numbers] = {}
    with ShardPipe(client, numbers=True) as pipe:
        for shard in shards:
            payload = packed("SMEMBERS", shard_index_key(generation, shard))
            pipe.submit(shard, payload, 1, partial(setitem, answers, shard))
    sizes = _concatenated(sizes for sizes, _ in answers.values())
    peids = _concatenated(peids for _, peids in answers.values())
    of_shard = np.repeat(np.array(list(answers), np.int64), sizes)
    order = np.lexsort((peids, of_shard))
    return of_shard[order], peids[order]


def shard_runs(shards: Int64s) -> Iterator[tuple[int, int, int]]:
    """Each shard with the range in which it stands."""
    bounds = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
    for first, last in pairwise(bounds):
        if first < last:
            yield int(shards[first]), first, last


def _concatenated(arrays: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *arrays])
