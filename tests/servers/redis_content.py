"""What lies in a Redis, read by plain commands: a second opinion on our own reader."""

from __future__ import annotations

from typing import Any

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.sets.pair_arrays import Int64s
from schemas import redis_keys

Pairs = set[tuple[int, int]]


def random_pairs(seed: int, count: int, peids: int = 400) -> tuple[Int64s, Int64s]:
    """Pairs with repetitions, a popular entity among them."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, 2**62, peids)
    which = random.integers(0, peids, count)
    which[: count // 5] = 0
    return chosen[which], random.integers(0, 50_000, count)


def as_pairs(peids: Int64s, sub_ids: Int64s) -> Pairs:
    """The distinct pairs."""
    return set(zip(peids.tolist(), sub_ids.tolist(), strict=True))


def pairs_in_redis(client: RedisClient, generation: int) -> Pairs:
    """The pairs of a generation, found by scanning all keys: no index, no reader of ours."""
    keys = [key for key in generation_keys(client, generation) if not key.endswith(":peids")]
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.smembers(key)
    sets: list[Any] = pipeline.execute()
    found: Pairs = set()
    for key, members in zip(keys, sets, strict=True):
        peid = int(key.rpartition(":")[2])
        assert key == redis_keys.membership_key(generation, peid)
        found |= {(peid, int(member)) for member in members}
    return found


def generation_keys(client: RedisClient, generation: int) -> list[str]:
    """All keys that bear the number of the generation, named by an index or not."""
    return [key.decode() for key in client.scan_iter(match=f"spaps:*:g{generation}:*", count=1000)]


def numbers_of_generations(client: RedisClient) -> set[int]:
    """The generations of which any key is left."""
    keys = client.scan_iter(match="spaps:*:g*:*", count=1000)
    return {int(key.decode().split(":")[2][1:]) for key in keys}
