"""Whatever goes wrong in a push, the old generation serves on and nothing stays behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from redis import Redis

from redis_link.connection.client import RedisClient, connect
from redis_link.generation import generation_store
from redis_link.generation.generation_push import GenerationPush
from redis_link.generation.push_lock import fenced_writer
from redis_link.sets.set_writer import write_pairs
from redis_link.sets.shard_pipe import ShardPipe
from schemas import redis_keys
from schemas.errors import GenerationError, RedisFullError, RedisLinkError
from tests.servers.redis_content import (
    as_pairs,
    numbers_of_generations,
    pairs_in_redis,
    random_pairs,
)
from tests.servers.redis_pushes import SOURCE, all_tallies, push
from tests.servers.redis_server import RedisServer, running_redis


def damage_set(client: RedisClient, key: str, member: int, damage: str) -> None:
    if damage in ("lost", "exchanged"):
        client.srem(key, member)
    if damage in ("added", "exchanged"):
        client.sadd(key, 999_999_999)
    if damage == "set lost":
        client.delete(key)
    if damage == "foreign":
        client.sadd(key, "x")


def push_with_damage(client: RedisClient, damage: str) -> None:
    with GenerationPush(client, SOURCE) as building:
        generation = building.token.generation
        peids, sub_ids = random_pairs(10, 5_000)
        with fenced_writer(client, building.token) as writer:
            expected = writer.write(peids, sub_ids)
        key = redis_keys.membership_key(generation, int(peids[0]))
        damage_set(client, key, int(sub_ids[0]), damage)
        building.switch(expected, all_tallies(client, generation))


@pytest.mark.parametrize("damage", ["lost", "added", "exchanged", "set lost", "foreign"])
def test_damage_between_writing_and_reading_back_is_seen(
    redis_client: RedisClient, damage: str
) -> None:
    push_with_damage(redis_client, "none")
    old_pairs = random_pairs(9, 1_000)
    old = push(redis_client, old_pairs)
    with pytest.raises(GenerationError):
        push_with_damage(redis_client, damage)
    assert generation_store.current_number(redis_client) == old
    assert numbers_of_generations(redis_client) == {old}
    assert pairs_in_redis(redis_client, old) == as_pairs(*old_pairs)


def test_lost_facts_of_the_current_generation_do_not_stop_a_push(redis_client: RedisClient) -> None:
    push(redis_client, random_pairs(25, 100))
    redis_client.delete(redis_keys.generations_key())
    with pytest.raises(GenerationError, match="facts are gone"):
        generation_store.current_generation(redis_client)
    pairs = random_pairs(26, 100)
    generation = push(redis_client, pairs)
    assert generation_store.current_number(redis_client) == generation
    assert pairs_in_redis(redis_client, generation) == as_pairs(*pairs)


def test_facts_of_a_later_release_are_left_alone(redis_client: RedisClient) -> None:
    redis_client.hset(redis_keys.generations_key(), "1", '{"state":"frozen"}')
    with pytest.raises(GenerationError, match="does not understand"):
        push(redis_client, random_pairs(27, 10))
    assert redis_client.hgetall(redis_keys.generations_key()) == {b"1": b'{"state":"frozen"}'}
    assert not redis_client.exists(redis_keys.push_lock_key())


def test_negative_numbers_are_refused(redis_client: RedisClient) -> None:
    with pytest.raises(GenerationError, match="0 or above"):
        push(redis_client, (np.array([1, 2]), np.array([3, -4])))
    assert generation_store.current_number(redis_client) is None
    assert numbers_of_generations(redis_client) == set()


def test_full_memory_is_said_and_nothing_switched(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_redis(tmp_path_factory.mktemp("small"), "--maxmemory", "3mb") as server:
        client = connect(server.url)
        old_pairs = random_pairs(29, 500)
        old = push(client, old_pairs)
        with pytest.raises(RedisFullError, match="memory limit"):
            push(client, random_pairs(30, 300_000, peids=20_000))
        assert generation_store.current_number(client) == old
        assert numbers_of_generations(client) == {old}
        assert pairs_in_redis(client, old) == as_pairs(*old_pairs)


def test_a_killed_push_that_filled_the_memory_is_cleaned_up(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_redis(tmp_path_factory.mktemp("full")) as server:
        client = connect(server.url)
        old = push(client, random_pairs(29, 500))
        killed = GenerationPush(client, SOURCE)
        killed.__enter__()
        with ShardPipe(client) as pipe:
            write_pairs(pipe, killed.token.generation, *random_pairs(30, 50_000))
        client.config_set("maxmemory", client.info("memory")["used_memory"] - 100_000)
        with pytest.raises(RedisFullError):
            push(connect(server.url), random_pairs(31, 500))
        assert killed.token.generation in numbers_of_generations(client), "its lock was held"
        killed._lock._ending.set()
        client.delete(redis_keys.push_lock_key())
        new = push(connect(server.url), random_pairs(31, 500))
        assert new > killed.token.generation > old
        assert numbers_of_generations(client) == {new}


def test_connections_that_break_while_writing_are_made_anew(redis_server: RedisServer) -> None:
    client = connect(redis_server.url)
    ending = threading.Event()

    cuts: list[int] = []

    def cut() -> None:
        with Redis(port=redis_server.port) as other:
            while not ending.wait(0.05):
                cuts.append(other.client_kill_filter(_type="normal", skipme=True))

    pairs = random_pairs(31, 400_000, peids=30_000)
    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        with GenerationPush(client, SOURCE) as building:
            with fenced_writer(client, building.token) as writer:
                expected = writer.write(*pairs)
            found = all_tallies(client, building.token.generation)
            ending.set()
            cutter.join()
            building.switch(expected, found)
    finally:
        ending.set()
        cutter.join()
    assert sum(cuts) > 2, "nothing was cut"
    assert building.completed is not None
    assert pairs_in_redis(client, building.completed.generation) == as_pairs(*pairs)


def test_redis_away_is_one_line_and_the_next_push_cleans_up(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_redis(tmp_path_factory.mktemp("away"), "--appendonly", "yes") as server:
        client = connect(server.url + "?timeout=1")
        old = push(client, random_pairs(32, 500))
        with GenerationPush(client, SOURCE) as building:
            dead = building.token.generation
            with ShardPipe(client) as pipe:
                write_pairs(pipe, dead, *random_pairs(33, 5_000))
            server.kill()
            with pytest.raises(RedisLinkError, match=r"^Redis: [^\n]+$"):
                write_without_patience(client, dead)
        server.restart()
        client = connect(server.url)
        assert numbers_of_generations(client) == {old, dead}
        client.delete(redis_keys.push_lock_key())  # as if its time were over
        new = push(client, random_pairs(35, 500))
        assert numbers_of_generations(client) == {new}


def write_without_patience(client: RedisClient, generation: int) -> None:
    with ShardPipe(client, patience_seconds=0.5) as pipe:
        write_pairs(pipe, generation, *random_pairs(34, 5_000))
