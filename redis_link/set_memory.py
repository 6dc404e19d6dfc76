"""What the sets of a generation cost in Redis, measured on a sample of its shards."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from redis_link.client import RedisClient
from redis_link.packing import membership_keys, packed_reads
from redis_link.set_reader import read_indexes
from redis_link.shard_pipe import ShardPipe
from schemas.errors import RedisLinkError
from schemas.redis_keys import SHARD_COUNT, shard_index_key

SETS_IN_SAMPLE: Final = 20_000
FEWEST_SHARDS: Final = 16


def bytes_per_pair(client: RedisClient, generation: int, peids: int) -> float | None:
    """Bytes of keys, sets and indexes for each pair; None where Redis does not tell."""
    wanted = SHARD_COUNT * SETS_IN_SAMPLE // max(peids, 1)
    stride = max(1, SHARD_COUNT // max(wanted, FEWEST_SHARDS))
    costs: list[Any] = []
    sizes: list[Any] = []
    try:
        indexes = read_indexes(client, generation, range(0, SHARD_COUNT, stride))
        with ShardPipe(client) as pipe:
            for shard, entities in indexes.items():
                if not len(entities):
                    continue
                sets = membership_keys(generation, np.full_like(entities, shard), entities)
                keys = pa.concat_arrays([sets, pa.array([shard_index_key(generation, shard)])])
                usage = packed_reads(["MEMORY", "USAGE"], keys)
                pipe.submit(shard, usage.part(0, len(usage)), len(usage), costs.extend)
                counts = packed_reads(["SCARD"], sets)
                pipe.submit(shard, counts.part(0, len(counts)), len(counts), sizes.extend)
    except RedisLinkError:  # hosted servers forbid MEMORY, or do not know it
        return None
    pairs = sum(sizes)
    return sum(filter(None, costs)) / pairs if pairs else None
