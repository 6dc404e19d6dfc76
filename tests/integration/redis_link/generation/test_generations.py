"""Generations on a real server: what is pushed is there, current, and announced."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
from redis import Redis

from redis_link.connection.client import RedisClient
from redis_link.generation import generation_store
from redis_link.generation.generation_push import PushSource
from redis_link.generation.push_lock import PushLock
from redis_link.generation.sweep import Retention
from redis_link.sets.set_reader import read_shards
from schemas import redis_keys
from schemas.generation import FROM_FILE, GenerationState, RegistryCoverage
from tests.servers.redis_content import (
    Pairs,
    as_pairs,
    pairs_in_redis,
    random_pairs,
)
from tests.servers.redis_pushes import AT_ONCE, all_tallies, push, push_reported
from tests.servers.redis_server import wait_for


def read_pairs(client: RedisClient, generation: int) -> Pairs:
    """The pairs of a generation by our own reader."""
    return {
        (peid, sub_id)
        for members in read_shards(client, generation, range(redis_keys.SHARD_COUNT))
        for peid, (start, end) in zip(
            members.peids.tolist(), pairwise(members.offsets.tolist()), strict=True
        )
        for sub_id in members.sub_ids[start:end].tolist()
    }


def test_what_is_pushed_is_there_and_read_back(redis_client: RedisClient) -> None:
    pairs = random_pairs(1, 30_000)
    generation = push(redis_client, pairs)
    expected = as_pairs(*pairs)
    assert pairs_in_redis(redis_client, generation) == expected
    assert read_pairs(redis_client, generation) == expected
    facts = generation_store.current_generation(redis_client)
    assert facts is not None
    assert facts.state is GenerationState.COMPLETE
    assert (facts.generation, facts.version, facts.coverage) == (generation, 3, FROM_FILE)
    assert (facts.pairs, facts.peids) == (len(expected), len({peid for peid, _ in expected}))
    assert facts.checksum == all_tallies(redis_client, generation).checksum()
    assert "process" in facts.started_by
    assert facts.completed_at is not None
    assert facts.started_at <= facts.completed_at


def test_sets_are_integer_sets(redis_client: RedisClient) -> None:
    generation = push(redis_client, (np.full(300, 5), np.arange(300)))
    key = redis_keys.membership_key(generation, 5)
    assert redis_client.object("encoding", key) == b"intset"


def test_a_popular_entity_is_whole(redis_client: RedisClient) -> None:
    generation = push(redis_client, (np.full(20_000, 7), np.arange(20_000)))
    assert redis_client.scard(redis_keys.membership_key(generation, 7)) == 20_000


def test_a_report_says_what_was_done(redis_client: RedisClient) -> None:
    pairs = random_pairs(2, 5_000)
    said: list[str] = []
    report = push_reported(redis_client, pairs, retention=AT_ONCE, say=said.append)
    assert report.pairs == len(as_pairs(*pairs))
    assert report.replaced is None
    assert f"{report.pairs:,} pairs" in report.summary()
    assert any("reading back" in line for line in said)
    assert report.bytes_per_pair is not None
    assert 2 < report.bytes_per_pair < 200
    assert any("set-max-intset-entries is 512" in line for line in report.advice)


def test_empty_generation(redis_client: RedisClient) -> None:
    push(redis_client, random_pairs(3, 100))
    nothing = np.empty(0, np.int64)
    generation = push(redis_client, (nothing, nothing))
    facts = generation_store.current_generation(redis_client)
    assert facts is not None
    assert (facts.generation, facts.pairs, facts.peids) == (generation, 0, 0)
    assert read_pairs(redis_client, generation) == set()


def test_switch_is_announced(redis_client: RedisClient) -> None:
    assert isinstance(redis_client, Redis)
    with redis_client.pubsub() as listener:
        listener.subscribe(redis_keys.GENERATION_CHANNEL)
        wait_for(lambda: listener.get_message(timeout=1) is not None, "the subscription")
        generation = push(redis_client, random_pairs(8, 100), version=9)
        message = listener.get_message(ignore_subscribe_messages=True, timeout=5)
    assert message is not None
    notice = json.loads(message["data"])
    assert (notice["generation"], notice["version"]) == (generation, 9)


def test_switching_back_and_forth(redis_client: RedisClient) -> None:
    first = push(redis_client, random_pairs(23, 500))
    keep = Retention(grace_seconds=0, keep=1)
    second = push_reported(redis_client, random_pairs(24, 500), retention=keep).generation
    with PushLock(redis_client, "rollback") as lock:
        old = generation_store.require_complete(redis_client, first)
        back = replace(old, retired_at=None)
        replaced = generation_store.switch_generation(redis_client, lock.value, old, back)
    assert replaced is not None
    assert replaced.generation == second
    assert generation_store.current_generation(redis_client) == back


def test_coverage_is_kept(redis_client: RedisClient) -> None:
    coverage = RegistryCoverage("abc", 2**62 + 1)
    push_reported(redis_client, random_pairs(28, 10), PushSource(1, "a rebuild", coverage))
    facts = generation_store.current_generation(redis_client)
    assert facts is not None
    assert facts.coverage == coverage
