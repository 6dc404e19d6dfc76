"""Writes membership sets: sent from here, or copied by Redis from another generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from redis_link.connection.client import RedisClient
from redis_link.sets.packing import (
    PackedCommands,
    membership_keys,
    packed,
    packed_onto,
    packed_sadds,
    packed_script,
    packed_words,
)
from redis_link.sets.pair_arrays import (
    Int64s,
    Members,
    Pairs,
    Tally,
    group_starts,
    members_of,
    tally_of,
)
from redis_link.sets.set_reader import read_index, read_sets, read_sizes, shard_runs
from redis_link.sets.shard_pipe import BATCH_BYTES, ShardPipe
from schemas.generation import GenerationFacts
from schemas.redis_keys import SHARD_COUNT, shard_index_key

# Redis answers no other client while it runs one command. So a popular entity gets several
# commands, and a script copies sets for a tenth of a millisecond.
MEMBERS_IN_COMMAND: Final = 4_096
KEYS_IN_COMMAND: Final = 200
COPIES_AT_ONCE: Final = 64
# KEYS: a set and its copy, in turn. Copying twice does nothing.
COPY_SETS: Final = """
for place = 1, #KEYS, 2 do redis.call('COPY', KEYS[place], KEYS[place + 1]) end
return #KEYS
"""


@dataclass(frozen=True, slots=True, eq=False)
class PackedSets:
    """Commands that write sets and the indexes that name them, with the shard of each command."""

    tally: Tally
    indexes: PackedCommands
    of_index: Int64s
    sets: PackedCommands
    of_set: Int64s


def write_pairs(pipe: ShardPipe, generation: int, peids: Int64s, sub_ids: Int64s) -> Tally:
    """Write pairs in any order, repeated or not, and return their tally.

    All pairs of a peid must come in one call: the tally counts it once in each call.
    """
    packed = packed_sets(generation, members_of(peids, sub_ids))
    submit_sets(pipe, packed)
    return packed.tally


def packed_sets(generation: int, members: Members) -> PackedSets:
    """Return the commands that write sets, which stand in the order of ``members_of``."""
    entities, starts = members.peids, members.offsets[:-1]
    shards = entities % SHARD_COUNT
    indexes, of_index = _packed_indexes(generation, entities, shards)
    begins, groups = _split_long(starts, len(members.sub_ids))
    keys = membership_keys(generation, shards[groups], entities[groups])
    sets = packed_sadds(keys, begins, members.sub_ids)
    return PackedSets(members.tally(), indexes, of_index, sets, shards[groups])


def submit_sets(pipe: ShardPipe, packed: PackedSets) -> None:
    """Write the indexes, wait, then write the sets: a set that no index names is never removed."""
    shards = np.unique(packed.of_index).tolist()
    for shard in shards:
        _submit(pipe, shard, packed.indexes, packed.of_index)
    pipe.flush()
    for shard in shards:
        _submit(pipe, shard, packed.sets, packed.of_set)


def _packed_indexes(
    generation: int, entities: Int64s, shards: Int64s
) -> tuple[PackedCommands, Int64s]:
    """Return the commands that write the indexes of shards, and the shard of each command."""
    begins, _ = _split_long(group_starts(shards), len(shards))
    of_command = shards[begins]
    keys = [shard_index_key(generation, shard) for shard in of_command.tolist()]
    return packed_sadds(pa.array(keys, pa.string()), begins, entities), of_command


def _split_long(starts: Int64s, length: int) -> tuple[Int64s, Int64s]:
    """Return where each command begins, and its group; a very long group gets several commands."""
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


class SetCopies:
    """The sets of a generation that is made out of another one."""

    def __init__(self, client: RedisClient, base: GenerationFacts, generation: int) -> None:
        self._client = client
        self._base = base
        self.generation = generation
        self._of_shard, self._peids = read_index(client, base.generation, range(SHARD_COUNT))

    def copy_sets(self) -> None:
        """Let Redis copy the indexes, wait, then let it copy the sets."""
        old, new = self._base.generation, self.generation
        with ShardPipe(self._client) as pipe:
            for shard in np.unique(self._of_shard).tolist():
                source, target = shard_index_key(old, shard), shard_index_key(new, shard)
                pipe.submit(shard, packed("COPY", source, target), 1)
        if not len(self._peids):
            return
        sources = membership_keys(old, self._of_shard, self._peids)
        targets = membership_keys(new, self._of_shard, self._peids)
        keys = packed_words(sources, targets)
        with ShardPipe(self._client) as pipe:
            for shard, first, last in shard_runs(self._of_shard):
                for at in range(first, last, COPIES_AT_ONCE):
                    after = min(at + COPIES_AT_ONCE, last)
                    copies = packed_script(COPY_SETS, keys.part(at, after), 2 * (after - at))
                    pipe.submit(shard, copies, 1)

    def apply(self, added: Pairs, removed: Pairs) -> None:
        """Remove and add the pairs in which the generation differs from its base."""
        peids, sub_ids = removed
        if len(peids):
            starts = group_starts(peids)
            shards = peids[starts] % SHARD_COUNT
            keys = membership_keys(self.generation, shards, peids[starts])
            with ShardPipe(self._client) as pipe:
                removals = packed_sadds(keys, starts, sub_ids, "SREM")
                for shard in np.unique(shards).tolist():
                    _submit(pipe, shard, removals, shards)
        if len(added[0]):
            with ShardPipe(self._client) as pipe:
                write_pairs(pipe, self.generation, *added)

    def compared(self, added: Pairs, removed: Pairs) -> tuple[Tally, Tally]:
        """Return the tally that the generation should have, and the one that Redis has.

        Every set is counted, and the changed sets are read in both generations. An unchanged copy
        counts as what its original was when that generation was read back.
        """
        client, base = self._client, self._base
        of_shard, peids = read_index(client, self.generation, range(SHARD_COUNT))
        sizes = read_sizes(client, self.generation, of_shard, peids)
        self._drop_from_index(of_shard[sizes == 0], peids[sizes == 0])
        changed = np.unique(np.concatenate([added[0], removed[0]]))
        changed = changed[np.lexsort((changed, changed % SHARD_COUNT))]
        shards = changed % SHARD_COUNT
        before = read_sets(client, base.generation, shards, changed)
        after = read_sets(client, self.generation, shards, changed)
        whole = Tally.from_facts(base.pairs, base.peids, base.checksum)
        sums = whole - before.tally() + after.tally()
        found = Tally(int(sizes.sum()), int(np.count_nonzero(sizes)), sums.high, sums.low)
        should_have = (
            np.diff(before.offsets) + _counts(changed, added[0]) - _counts(changed, removed[0])
        )
        expected = whole - tally_of(*removed, 0) + tally_of(*added, 0)
        fewer = np.count_nonzero(np.diff(before.offsets)) - np.count_nonzero(should_have)
        return Tally(expected.pairs, whole.peids - int(fewer), expected.high, expected.low), found

    def _drop_from_index(self, of_shard: Int64s, peids: Int64s) -> None:
        """Remove entities that no subscription selects any more from the indexes."""
        numbers = packed_words(peids)
        with ShardPipe(self._client) as pipe:
            for shard, first, last in shard_runs(of_shard):
                index = shard_index_key(self.generation, shard)
                for at in range(first, last, KEYS_IN_COMMAND):
                    after = min(at + KEYS_IN_COMMAND, last)
                    gone = packed_onto(("SREM", index), numbers.part(at, after), after - at)
                    pipe.submit(shard, gone, 1)


def _counts(wanted: Int64s, peids: Int64s) -> Int64s:
    """Return how often each wanted peid stands among the peids."""
    found, counts = np.unique(peids, return_counts=True)
    if not len(found):
        return np.zeros(len(wanted), np.int64)
    places = np.searchsorted(found, wanted)
    places[places == len(found)] = 0
    return np.where(found[places] == wanted, counts[places], 0)
