"""Generations that nobody may read any more are removed, all of them and nothing else."""

from __future__ import annotations

import time

import pytest

from redis_link.connection.client import RedisClient
from redis_link.generation import generation_store, sweep
from redis_link.generation.local_push import push_pairs
from redis_link.generation.sweep import BackgroundSweep, Retention, sweep_generations
from redis_link.sets.set_writer import write_pairs
from redis_link.sets.shard_pipe import ShardPipe
from schemas.generation import GenerationState
from tests.servers.redis_content import (
    as_pairs,
    generation_keys,
    numbers_of_generations,
    pairs_in_redis,
    random_pairs,
)
from tests.servers.redis_pushes import AT_ONCE, SOURCE, push, push_reported


def test_next_push_replaces_and_leaves_no_key(redis_client: RedisClient) -> None:
    first = push(redis_client, random_pairs(4, 8_000))
    pairs = random_pairs(5, 9_000)
    second = push(redis_client, pairs, version=4)
    assert second > first
    assert numbers_of_generations(redis_client) == {second}
    assert pairs_in_redis(redis_client, second) == as_pairs(*pairs)
    states = {
        facts.generation: facts.state for facts in generation_store.all_generations(redis_client)
    }
    assert states == {first: GenerationState.REMOVED, second: GenerationState.COMPLETE}


def test_replaced_generation_stays_for_the_grace_time(redis_client: RedisClient) -> None:
    old_pairs = random_pairs(6, 3_000)
    old = push(redis_client, old_pairs)
    long = Retention(grace_seconds=1e6)
    report = push_pairs(redis_client, SOURCE, [random_pairs(7, 3_000)], retention=long)
    assert report.replaced == old
    assert report.cleanup is not None
    assert report.cleanup.running
    assert pairs_in_redis(redis_client, old) == as_pairs(*old_pairs)
    report.cleanup.cancel()
    assert BackgroundSweep(redis_client, Retention(grace_seconds=0.2)).wait() == (old,)
    assert generation_keys(redis_client, old) == []


def test_a_sweep_waits_for_an_infinite_grace_time(redis_client: RedisClient) -> None:
    old = push(redis_client, random_pairs(8, 500))
    push_reported(redis_client, random_pairs(9, 500))
    waiting = BackgroundSweep(redis_client, Retention(grace_seconds=float("inf")))
    time.sleep(0.3)
    assert waiting.running
    waiting.cancel()
    assert waiting.wait() == ()
    assert generation_keys(redis_client, old) != []


def test_kept_generations_are_the_last_ones(redis_client: RedisClient) -> None:
    keep_one = Retention(grace_seconds=0, keep=1)
    numbers = []
    for seed in range(4):
        report = push_pairs(redis_client, SOURCE, [random_pairs(seed, 500)], retention=keep_one)
        assert report.cleanup is not None
        report.cleanup.wait()
        numbers.append(report.generation)
    assert numbers_of_generations(redis_client) == set(numbers[-2:])


def test_what_a_late_writer_leaves_is_found_in_the_end(
    redis_client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = push(redis_client, random_pairs(15, 500))
    second = push(redis_client, random_pairs(16, 500))
    assert generation_keys(redis_client, first) == []
    with ShardPipe(redis_client) as pipe:
        write_pairs(pipe, first, *random_pairs(17, 500))
    assert generation_keys(redis_client, first) != []
    monkeypatch.setattr(sweep, "REMEMBER_SECONDS", -1.0)
    sweep_generations(redis_client, AT_ONCE)
    assert numbers_of_generations(redis_client) == {second}
    known = generation_store.all_generations(redis_client)
    assert [facts.generation for facts in known] == [second]


def test_a_sweep_that_was_killed_goes_on(
    redis_client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = push(redis_client, random_pairs(20, 3_000))
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "_unlink", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        facts = generation_store.current_generation(redis_client)
        assert facts is not None
        push_reported(redis_client, random_pairs(21, 100))
        retired = generation_store.all_generations(redis_client)[0]
        with pytest.raises(KeyboardInterrupt):
            sweep.remove_generation(redis_client, retired)
    assert generation_keys(redis_client, first) != []
    assert sweep_generations(redis_client, Retention(grace_seconds=1e9)).removed == (first,)
    assert generation_keys(redis_client, first) == []


def test_the_current_generation_cannot_be_removed(redis_client: RedisClient) -> None:
    generation = push(redis_client, random_pairs(22, 500))
    facts = generation_store.current_generation(redis_client)
    assert facts is not None
    assert not sweep.remove_generation(redis_client, facts)
    assert sweep_generations(redis_client, AT_ONCE, building_is_dead=True).removed == ()
    assert len(pairs_in_redis(redis_client, generation)) == facts.pairs
