"""Pushes of one process, as tests need them."""

from __future__ import annotations

from dataclasses import replace

from redis_link.client import RedisClient
from redis_link.generation_push import PushSource
from redis_link.local_push import push_pairs
from redis_link.set_reader import read_shards
from redis_link.sweep import Retention
from redis_link.tally import Int64s, Tally
from schemas.redis_keys import SHARD_COUNT

AT_ONCE = Retention(grace_seconds=0)
SOURCE = PushSource(3, "a test")


def push(client: RedisClient, pairs: tuple[Int64s, Int64s], version: int = 3) -> int:
    """Push, remove what was replaced, and give the number of the generation."""
    report = push_pairs(client, replace(SOURCE, version=version), [pairs], retention=AT_ONCE)
    assert report.cleanup is not None
    report.cleanup.wait()
    return report.generation


def all_tallies(client: RedisClient, generation: int) -> Tally:
    """What Redis holds of a generation, by our reader."""
    parts = read_shards(client, generation, range(SHARD_COUNT))
    return sum((part.tally() for part in parts), Tally())
