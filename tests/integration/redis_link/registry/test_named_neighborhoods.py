"""Named neighborhoods in Redis: their edition, their users, and what is lost."""

from __future__ import annotations

import asyncio

import pytest

from broker.durability.registrations import unknown_name
from broker.generations.redis_definitions import RedisDefinitions
from broker.ports import StoreAwayError
from broker.resolver.resolver_requests import NeighborhoodRefusedError
from redis_link.connection.client import RedisClient
from redis_link.connection.redis_router import RedisRouter
from redis_link.registry.named_neighborhoods import (
    EDITION_FIELD,
    add_name,
    all_names,
    find_name,
    remove_name,
    users_of,
)
from redis_link.registry.registry_scripts import UNKNOWN_NAME, BrokerCalls
from schemas.errors import NameInUseError, RedisLinkError
from schemas.language.notation import read_neighborhood
from schemas.redis_keys import names_key, registry_id_key
from schemas.subscription import Registration
from tests.scenes.registrations import BROKER, forget, register
from tests.servers.redis_server import RedisServer

ONE, OTHER = read_neighborhood("({1},{a},C)"), read_neighborhood("({2},{a},C)")


def user(nsid: int, name: str = "old") -> Registration:
    return Registration("c", nsid, "t", "{}", "h", BROKER, name)


def edition(client: RedisClient) -> tuple[str, int]:
    text = client.hget(names_key(), EDITION_FIELD)
    assert isinstance(text, bytes)
    identity, _, number = text.decode().partition(":")
    return identity, int(number)


def test_every_change_counts_the_edition_up(redis_client: RedisClient) -> None:
    assert add_name(redis_client, "old", ONE)
    identity, first = edition(redis_client)
    assert not add_name(redis_client, "old", OTHER)
    assert edition(redis_client) == (identity, first + 1)
    assert find_name(redis_client, "old").descriptor == OTHER.to_json()
    assert add_name(redis_client, "new", ONE)
    assert [one.name for one in all_names(redis_client)] == ["new", "old"]
    assert remove_name(redis_client, "old", forced=False) == 0
    assert edition(redis_client) == (identity, first + 3)
    assert [one.name for one in all_names(redis_client)] == ["new"]


def test_users_are_those_who_are_registered(redis_client: RedisClient) -> None:
    add_name(redis_client, "old", ONE)
    first, second = register(redis_client, user(1)), register(redis_client, user(2))
    assert register(redis_client, user(1)) == first
    register(redis_client, Registration("c", 3, "t", "{}", "h", BROKER))
    assert users_of(redis_client, "old") == 2
    with pytest.raises(NameInUseError, match="2 subscriptions use"):
        remove_name(redis_client, "old", forced=False)
    forget(redis_client, first, second)
    assert users_of(redis_client, "old") == 0
    assert remove_name(redis_client, "old", forced=False) == 0


def test_nothing_is_registered_by_a_name_that_is_gone(redis_client: RedisClient) -> None:
    register(redis_client, Registration("c", 3, "t", "{}", "h", BROKER))
    registry = redis_client.get(registry_id_key())
    assert isinstance(registry, bytes)
    calls = BrokerCalls(BROKER, "process of the tests")
    call = calls.register(user(1), registry.decode())
    assert run(redis_client, call) == UNKNOWN_NAME
    assert users_of(redis_client, "old") == 0
    # One in force, whose registration was lost, is registered again all the same.
    call = calls.register(user(1), registry.decode(), is_restored=True)
    assert int(run(redis_client, call)) > 0
    assert users_of(redis_client, "old") == 1


def run(client: RedisClient, call: object) -> bytes:
    answer = client.eval(call.script.text, len(call.keys), *call.keys, *map(str, call.words))  # type: ignore[attr-defined]
    assert isinstance(answer, bytes)
    return answer


def test_what_is_lost_is_put_back_under_another_identity(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    add_name(redis_client, "old", ONE)
    add_name(redis_client, "new", ONE)
    definitions = all_names(redis_client)
    identity, _ = edition(redis_client)

    async def work() -> None:
        router = RedisRouter(redis_server.url)
        names = RedisDefinitions(router)
        try:
            assert await names.put_back(definitions) == 0, "nothing was lost"
            redis_client.delete(names_key())
            assert await names.edition() == ""
            add_name(redis_client, "old", OTHER)
            assert await names.put_back(definitions) == 1
            assert (await names.find("old")).descriptor == OTHER.to_json(), "what is there stays"
            assert await names.of_names(["new", "none"]) == {"new": definitions[0]}
            assert (await names.edition()).partition(":")[0] != identity
            with pytest.raises(NeighborhoodRefusedError, match=str(unknown_name("none"))):
                await names.find("none")
            redis_client.hset(names_key(), "broken", "{")
            with pytest.raises(StoreAwayError, match="'broken' in Redis is broken"):
                await names.find("broken")
        finally:
            router.close()

    asyncio.run(work())
    with pytest.raises(RedisLinkError, match="add it again"):
        all_names(redis_client)
