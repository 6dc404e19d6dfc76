"""Membership sets into Redis."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from redis_link.packing import PackedCommands, membership_keys, packed_sadds
from redis_link.pair_arrays import group_starts, sorted_distinct
from redis_link.shard_pipe import BATCH_BYTES, ShardPipe
from redis_link.tally import Int64s, Tally, tally_of
from schemas.redis_keys import SHARD_COUNT, shard_index_key

# Redis answers nobody else while it runs one command: a popular entity gets several.
MEMBERS_IN_COMMAND: Final = 4_096


def write_pairs(pipe: ShardPipe, generation: int, peids: Int64s, sub_ids: Int64s) -> Tally:
    """Give pairs to the pipe, in any order, repeated or not; the tally counts each once.

    All pairs of a peid must come in one call, for the tally's sake. The index is written and
    acknowledged first: sets that it does not name could never be found again.
    """
    peids, sub_ids = sorted_distinct(peids, sub_ids)
    starts = group_starts(peids)
    entities = peids[starts]
    shards = entities % SHARD_COUNT
    indexes, of_index = _packed_indexes(generation, entities, shards)
    begins, groups = _split_long(starts, len(peids))
    keys = membership_keys(generation, shards[groups], entities[groups])
    sets, of_set = packed_sadds(keys, begins, sub_ids), shards[groups]
    distinct_shards = np.unique(shards).tolist()
    for shard in distinct_shards:
        _submit(pipe, shard, indexes, of_index)
    pipe.flush()
    for shard in distinct_shards:
        _submit(pipe, shard, sets, of_set)
    return tally_of(peids, sub_ids, len(entities))


def _packed_indexes(
    generation: int, entities: Int64s, shards: Int64s
) -> tuple[PackedCommands, Int64s]:
    """The commands that write the shards' indexes, and the shard of each command."""
    begins, _ = _split_long(group_starts(shards), len(shards))
    of_command = shards[begins]
    keys = [shard_index_key(generation, shard) for shard in of_command.tolist()]
    return packed_sadds(pa.array(keys, pa.string()), begins, entities), of_command


def _split_long(starts: Int64s, length: int) -> tuple[Int64s, Int64s]:
    """Where each command begins, and its group: very long groups get several commands."""
    sizes = np.diff(starts, append=length)
    commands = -(-sizes // MEMBERS_IN_COMMAND)
    groups = np.repeat(np.arange(len(starts)), commands)
    place = np.arange(len(groups)) - np.repeat(np.cumsum(commands) - commands, commands)
    return starts[groups] + place * MEMBERS_IN_COMMAND, groups


def _submit(pipe: ShardPipe, shard: int, commands: PackedCommands, shards: Int64s) -> None:
    """Give the commands of one shard to the pipe, in parts of about one batch."""
    first, last = np.searchsorted(shards, [shard, shard + 1]).tolist()
    while first < last:
        goal = commands.offsets[first] + BATCH_BYTES
        after = int(np.searchsorted(commands.offsets, goal, side="right")) - 1
        after = min(max(after, first + 1), last)
        pipe.submit(shard, commands.part(first, after), after - first)
        first = after
