"""Membership sets into Redis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from redis_link.sets.member_sets import Members, members_of
from redis_link.sets.packing import PackedCommands, membership_keys, packed_sadds
from redis_link.sets.pair_arrays import group_starts
from redis_link.sets.shard_pipe import BATCH_BYTES, ShardPipe
from redis_link.sets.tally import Int64s, Tally
from schemas.redis_keys import SHARD_COUNT, shard_index_key

# Redis answers nobody else while it runs one command: a popular entity gets several.
MEMBERS_IN_COMMAND: Final = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class PackedSets:
    """Commands that write some sets and the indexes that name them, with the shard of each."""

    tally: Tally
    indexes: PackedCommands
    of_index: Int64s
    sets: PackedCommands
    of_set: Int64s


def write_pairs(pipe: ShardPipe, generation: int, peids: Int64s, sub_ids: Int64s) -> Tally:
    """Give pairs to the pipe, in any order, repeated or not; the tally counts each once.

    All pairs of a peid must come in one call, for the tally's sake.
    """
    packed = packed_sets(generation, members_of(peids, sub_ids))
    submit_sets(pipe, packed)
    return packed.tally


def packed_sets(generation: int, members: Members) -> PackedSets:
    """The commands for sets that stand in the order of ``members_of``."""
    entities, starts = members.peids, members.offsets[:-1]
    shards = entities % SHARD_COUNT
    indexes, of_index = _packed_indexes(generation, entities, shards)
    begins, groups = _split_long(starts, len(members.sub_ids))
    keys = membership_keys(generation, shards[groups], entities[groups])
    sets = packed_sadds(keys, begins, members.sub_ids)
    return PackedSets(members.tally(), indexes, of_index, sets, shards[groups])


def submit_sets(pipe: ShardPipe, packed: PackedSets) -> None:
    """The index is written and acknowledged first: sets that none names are never found again."""
    shards = np.unique(packed.of_index).tolist()
    for shard in shards:
        _submit(pipe, shard, packed.indexes, packed.of_index)
    pipe.flush()
    for shard in shards:
        _submit(pipe, shard, packed.sets, packed.of_set)


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
