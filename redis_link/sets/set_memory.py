"""What the sets of a generation cost in Redis, measured on a sample of its shards."""

from __future__ import annotations

from typing import Any, Final

from redis_link.connection.client import RedisClient
from redis_link.sets.packing import membership_keys, packed, packed_reads
from redis_link.sets.set_reader import read_index, shard_runs
from redis_link.sets.shard_pipe import ShardPipe
from schemas.errors import RedisLinkError
from schemas.redis_keys import SHARD_COUNT, shard_index_key

SETS_IN_SAMPLE: Final = 5_000
FEWEST_SHARDS: Final = 16


def bytes_per_pair(client: RedisClient, generation: int, peids: int) -> float | None:
    """Bytes of keys, sets and indexes for each pair; None where Redis does not tell."""
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
