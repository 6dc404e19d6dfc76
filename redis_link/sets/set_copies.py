"""Sets of one generation as copies of another's: copied by Redis, changed, and compared."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.generation.sweep import KEYS_IN_COMMAND
from redis_link.sets.packing import (
    PackedCommands,
    membership_keys,
    packed,
    packed_onto,
    packed_sadds,
    packed_script,
    packed_words,
)
from redis_link.sets.pair_arrays import group_starts
from redis_link.sets.set_reader import SETS_IN_PART, read_index, read_sets, read_sizes, shard_runs
from redis_link.sets.set_writer import write_pairs
from redis_link.sets.shard_pipe import ShardPipe
from redis_link.sets.tally import Int64s, Tally, tally_of
from schemas.generation import GenerationFacts
from schemas.redis_keys import SHARD_COUNT, shard_index_key

Pairs = tuple[Int64s, Int64s]

# Redis answers nobody else meanwhile: a tenth of a millisecond for sets of usual size.
COPIES_AT_ONCE: Final = 64
# KEYS: a set and its copy, in turn. Copying twice does nothing.
COPY_SETS: Final = """
for place = 1, #KEYS, 2 do redis.call('COPY', KEYS[place], KEYS[place + 1]) end
return #KEYS
"""


class SetCopies:
    """The sets of a generation that is being made out of another."""

    def __init__(self, client: RedisClient, base: GenerationFacts, generation: int) -> None:
        self._client = client
        self._base = base
        self.generation = generation
        self._of_shard, self._peids = read_index(client, base.generation, range(SHARD_COUNT))

    def copy_sets(self, given_up: threading.Event) -> None:
        """Indexes first, and acknowledged: sets that none names could never be found again."""
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
                if given_up.is_set():
                    return
                for at in range(first, last, COPIES_AT_ONCE):
                    after = min(at + COPIES_AT_ONCE, last)
                    copies = packed_script(COPY_SETS, keys.part(at, after), 2 * (after - at))
                    pipe.submit(shard, copies, 1)

    def apply(self, added: Pairs, removed: Pairs) -> None:
        """Bring the copies to what the generation should hold."""
        peids, sub_ids = removed
        if len(peids):
            starts = group_starts(peids)
            shards = peids[starts] % SHARD_COUNT
            keys = membership_keys(self.generation, shards, peids[starts])
            with ShardPipe(self._client) as pipe:
                _submit(pipe, packed_sadds(keys, starts, sub_ids, "SREM"), shards)
        if len(added[0]):
            with ShardPipe(self._client) as pipe:
                write_pairs(pipe, self.generation, *added)

    def compared(self, added: Pairs, removed: Pairs) -> tuple[Tally, Tally]:
        """What the generation should hold, and what Redis says that it holds.

        Every set is counted; those that changed are read, before and after. So the copies are
        taken for what they were when their generation was read back, and nothing else is.
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
        """Entities that nobody selects any more have no set."""
        numbers = packed_words(peids)
        with ShardPipe(self._client) as pipe:
            for shard, first, last in shard_runs(of_shard):
                index = shard_index_key(self.generation, shard)
                for at in range(first, last, KEYS_IN_COMMAND):
                    after = min(at + KEYS_IN_COMMAND, last)
                    gone = packed_onto(("SREM", index), numbers.part(at, after), after - at)
                    pipe.submit(shard, gone, 1)


def _counts(wanted: Int64s, peids: Int64s) -> Int64s:
    """How often each wanted peid stands among the peids."""
    found, counts = np.unique(peids, return_counts=True)
    if not len(found):
        return np.zeros(len(wanted), np.int64)
    places = np.searchsorted(found, wanted)
    places[places == len(found)] = 0
    return np.where(found[places] == wanted, counts[places], 0)


def _submit(pipe: ShardPipe, commands: PackedCommands, of_shard: Int64s) -> None:
    """Give commands to the pipe, shard by shard, in parts of bounded size."""
    for shard, first, last in shard_runs(of_shard):
        for at in range(first, last, SETS_IN_PART):
            after = min(at + SETS_IN_PART, last)
            pipe.submit(shard, commands.part(at, after), after - at)
