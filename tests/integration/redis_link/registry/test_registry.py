"""Registered subscriptions: their numbers, what a rebuild reads, what stays of the removed."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from redis_link.connection.client import RedisClient, connect
from redis_link.registry.registry_reader import registered_subscriptions, registry_coverage
from schemas import redis_keys
from schemas.errors import RedisLinkError
from schemas.generation import RegistryCoverage
from schemas.subscription import Registration
from tests.scenes.registrations import BROKER, forget, register, unregister
from tests.servers.redis_server import RedisServer, running_redis


def registration(client: str = "ann", nsid: int = 1, hashed: str = "h1") -> Registration:
    return Registration(client, nsid, "sensor/#", '{"name":"Straße"}', hashed, BROKER)


def test_registering_gives_numbers_that_grow(redis_client: RedisClient) -> None:
    assert registry_coverage(redis_client) == RegistryCoverage()
    ids = [register(redis_client, registration(nsid=nsid)) for nsid in range(5)]
    assert ids == sorted(set(ids))
    assert dict(registered_subscriptions(redis_client)) == {
        sub_id: registration(nsid=nsid) for nsid, sub_id in enumerate(ids)
    }
    coverage = registry_coverage(redis_client)
    assert coverage.up_to == ids[-1]
    assert coverage.registry


def test_same_again_is_the_same(redis_client: RedisClient) -> None:
    first = register(redis_client, registration())
    assert register(redis_client, registration()) == first
    assert list(registered_subscriptions(redis_client)) == [(first, registration())]


def test_an_nsid_used_again_gets_a_new_number(redis_client: RedisClient) -> None:
    first = register(redis_client, registration(hashed="h1"))
    second = register(redis_client, registration(hashed="h2"))
    assert second > first
    # Both are registered until the replaced one is over.
    assert dict(registered_subscriptions(redis_client)) == {
        first: registration(hashed="h1"), second: registration(hashed="h2"),
    }  # fmt: skip
    forget(redis_client, first)
    assert dict(registered_subscriptions(redis_client)) == {second: registration(hashed="h2")}
    assert register(redis_client, registration(hashed="h2")) == second


def test_numbers_of_removed_ones_are_never_given_again(redis_client: RedisClient) -> None:
    first = register(redis_client, registration())
    assert unregister(redis_client, "ann", (1,)) == (first,)
    assert unregister(redis_client, "ann", (1,)) == ()
    assert list(registered_subscriptions(redis_client)) == []
    assert register(redis_client, registration()) > first


def test_removing_all_of_a_client_leaves_the_others(redis_client: RedisClient) -> None:
    mine = {register(redis_client, registration(nsid=nsid)) for nsid in range(3)}
    others = register(redis_client, registration("bob"))
    assert set(unregister(redis_client, "ann")) == mine
    assert [sub_id for sub_id, _ in registered_subscriptions(redis_client)] == [others]


def test_what_is_covered_was_there_to_be_read(redis_server: RedisServer) -> None:
    """A snapshot taken while others register misses nothing up to the number it claims."""
    ending = threading.Event()

    def keep_registering(name: str) -> None:
        client = connect(redis_server.url)
        nsid = 0
        while not ending.is_set():
            register(client, registration(name, nsid))
            nsid += 1

    threads = [threading.Thread(target=keep_registering, args=(f"c{at}",)) for at in range(3)]
    for thread in threads:
        thread.start()
    client = connect(redis_server.url)
    try:
        for _ in range(20):
            coverage = registry_coverage(client)
            read = {sub_id for sub_id, _ in registered_subscriptions(client)}
            assert set(range(1, coverage.up_to + 1)) <= read
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    assert registry_coverage(client).up_to > 20


def test_a_registry_made_anew_has_another_name(redis_client: RedisClient) -> None:
    register(redis_client, registration())
    before = registry_coverage(redis_client).registry
    redis_client.flushall()
    register(redis_client, registration())
    assert registry_coverage(redis_client).registry != before


def test_broken_entry_is_named(redis_client: RedisClient) -> None:
    redis_client.hset(redis_keys.subscriptions_key(), "7", "{}")
    with pytest.raises(RedisLinkError, match="subscription 7 in Redis is broken"):
        list(registered_subscriptions(redis_client))


def test_a_redis_that_is_away_is_told_with_what_was_asked_of_it(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server, closing(connect(server.url)) as client:
        server.kill()
        with pytest.raises(RedisLinkError, match=r"^Redis \(the registered subscriptions\): "):
            registry_coverage(client)
