"""One push at a time: the lock, its renewal and its end."""

from __future__ import annotations

import threading

import pytest

from redis_link.connection.client import RedisClient, connect
from redis_link.generation import generation_store, push_lock
from redis_link.generation.generation_push import GenerationPush, PushSource
from redis_link.generation.push_lock import PushLock, fenced_writer
from schemas import redis_keys
from schemas.errors import GenerationError, PushBusyError
from tests.servers.redis_content import (
    as_pairs,
    numbers_of_generations,
    pairs_in_redis,
    random_pairs,
)
from tests.servers.redis_pushes import SOURCE, push
from tests.servers.redis_server import RedisServer, wait_for


def test_two_at_once_one_wins_and_the_other_says_who_runs(redis_server: RedisServer) -> None:
    client = connect(redis_server.url)
    who = r"the long push, process \d+ on .+, since 2\d{3}-"
    with (
        GenerationPush(client, PushSource(1, "the long push")),
        pytest.raises(PushBusyError, match=who),
    ):
        push(connect(redis_server.url), random_pairs(11, 10))
    assert push(client, random_pairs(11, 10))


def test_many_at_once(redis_server: RedisServer) -> None:
    pushes = {seed: random_pairs(seed, 20_000) for seed in range(4)}
    won: dict[int, int] = {}
    refused: list[int] = []

    def run(seed: int) -> None:
        try:
            won[seed] = push(connect(redis_server.url), pushes[seed])
        except PushBusyError:
            refused.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in pushes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won
    assert len(won) + len(refused) == len(pushes)
    client = connect(redis_server.url)
    last = max(won, key=lambda seed: won[seed])
    assert generation_store.current_number(client) == won[last]
    assert pairs_in_redis(client, won[last]) == as_pairs(*pushes[last])
    assert numbers_of_generations(client) == {won[last]}


def test_lock_of_a_dead_holder_expires(redis_client: RedisClient) -> None:
    dead = PushLock(redis_client, "a push that was killed")
    redis_client.set(redis_keys.push_lock_key(), dead.value, px=600_000)
    with pytest.raises(PushBusyError, match="a push that was killed"):
        push(redis_client, random_pairs(12, 10))
    redis_client.pexpire(redis_keys.push_lock_key(), 200)
    wait_for(lambda: not redis_client.exists(redis_keys.push_lock_key()), "the lock to expire")
    assert push(redis_client, random_pairs(12, 10))


def test_lock_has_an_end_and_is_renewed_while_it_is_held(redis_client: RedisClient) -> None:
    key = redis_keys.push_lock_key()
    with PushLock(redis_client, "a long push", lock_seconds=9) as lock:
        assert 0 < redis_client.pttl(key) <= 9_000
        redis_client.pexpire(key, 8_000)
        wait_for(lambda: redis_client.pttl(key) > 8_000, "the lock to be renewed")
        lock.check()
        assert push_lock.still_held(redis_client, lock.value)
    assert not redis_client.exists(key)


def test_a_push_that_lost_its_lock_cannot_switch_nor_write(redis_client: RedisClient) -> None:
    pairs = random_pairs(13, 2_000)
    with GenerationPush(redis_client, SOURCE) as sleeper:
        with fenced_writer(redis_client, sleeper.token) as writer:
            expected = writer.write(*pairs)
        redis_client.delete(redis_keys.push_lock_key())
        faster = push(redis_client, random_pairs(14, 2_000))
        with (
            pytest.raises(GenerationError, match="lost the lock"),
            fenced_writer(redis_client, sleeper.token) as writer,
        ):
            writer.write(*pairs)
        with pytest.raises(GenerationError, match="the push lock was lost"):
            sleeper.switch(expected, expected)
    assert generation_store.current_number(redis_client) == faster
    assert numbers_of_generations(redis_client) == {faster}


def test_leaving_a_lost_lock_does_not_take_that_of_another(redis_client: RedisClient) -> None:
    with PushLock(redis_client, "asleep"):
        redis_client.delete(redis_keys.push_lock_key())
        other = PushLock(redis_client, "awake")
        other.__enter__()
    assert push_lock.still_held(redis_client, other.value)
    other.__exit__(None, None, None)
