"""Pushes of one process, as tests need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_push import PushReport, PushSource
from redis_link.generation.local_push import push_pairs
from redis_link.generation.sweep import KEEP_ALL, Retention
from redis_link.sets.pair_arrays import Int64s, Tally
from redis_link.sets.set_reader import read_shards
from schemas.redis_keys import SHARD_COUNT

AT_ONCE = Retention(grace_seconds=0)
SOURCE = PushSource(3, "a test")


def push(client: RedisClient, pairs: tuple[Int64s, Int64s], version: int = 3) -> int:
    """Push, remove what was replaced, and give the number of the generation."""
    return push_reported(client, pairs, replace(SOURCE, version=version), AT_ONCE).generation


def push_reported(
    client: RedisClient,
    pairs: tuple[Int64s, Int64s],
    source: PushSource = SOURCE,
    retention: Retention = KEEP_ALL,
    say: Callable[[str], None] = lambda _: None,
) -> PushReport:
    """Push and wait for the sweep, or end it where it would wait for a grace time.

    A sweep that went on would meet the next test, which empties the server and so gives the
    numbers of this one's generations again.
    """
    report = push_pairs(client, source, [pairs], retention=retention, say=say)
    assert report.cleanup is not None
    if retention.grace_seconds:
        report.cleanup.cancel()
    report.cleanup.wait()
    return report


def all_tallies(client: RedisClient, generation: int) -> Tally:
    """What Redis holds of a generation, by our reader."""
    parts = read_shards(client, generation, range(SHARD_COUNT))
    return sum((part.tally() for part in parts), Tally())
