"""Arrays of (peid, subId) pairs: each once, and in blocks of whole shards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from redis_link.sets.member_sets import members_of
from redis_link.sets.tally import Int64s
from schemas.redis_keys import SHARD_COUNT


def sorted_distinct(peids: Int64s, sub_ids: Int64s) -> tuple[Int64s, Int64s]:
    """The pairs by shard, peid and subId, each once."""
    members = members_of(peids, sub_ids)
    return np.repeat(members.peids, np.diff(members.offsets)), members.sub_ids


def group_starts(values: Int64s) -> Int64s:
    """Where each value begins in an array in which equal ones stand together."""
    if not len(values):
        return np.empty(0, np.int64)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([np.zeros(1, np.int64), changes])


def by_block(peids: Int64s, sub_ids: Int64s, blocks: int) -> Iterator[tuple[int, Int64s, Int64s]]:
    """The pairs of each block of shards that has any, in no order within it.

    All pairs of a peid are in one block, the same for every call with as many ``blocks``, which
    are no more than there are shards.
    """
    if blocks == 1:
        if len(peids):
            yield 0, peids, sub_ids
        return
    of_shard = (np.arange(SHARD_COUNT) * blocks // SHARD_COUNT).astype(np.uint16)
    numbers = of_shard[peids % SHARD_COUNT]
    order = np.argsort(numbers, kind="stable")
    peids, sub_ids = peids[order], sub_ids[order]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=blocks))]).tolist()
    for block in range(blocks):
        part = slice(bounds[block], bounds[block + 1])
        if part.start < part.stop:
            yield block, peids[part], sub_ids[part]
