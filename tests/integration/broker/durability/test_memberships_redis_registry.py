"""The broker's subscriptions in the registry of all: numbered, forgotten in order, put back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.durability.redis_registry import RedisRegistry
from broker.ports import StoreAwayError
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.redis_router import RedisRouter
from schemas.errors import RedisLinkError
from schemas.redis_keys import (
    registry_id_key,
)
from schemas.subscription import Registration
from tests.scenes.membership_scene import Subscriptions
from tests.scenes.registry_scene import (
    DESCRIPTOR,
    registered,
    renumber,
    request,
    resolution,
)
from tests.servers.redis_server import RedisServer, running_redis

Work = Callable[[RedisRegistry, Subscriptions], Coroutine[Any, Any, None]]


def on_registry(url: str, work: Work) -> None:
    async def run() -> None:
        router = RedisRouter(url, answer_seconds=2.0)
        subscriptions = Subscriptions()
        registry = RedisRegistry(router, "b", subscriptions.slots_by_sub_id, "token")
        try:
            await registry.keep_in_step(subscriptions.in_force, renumber)
            await work(registry, subscriptions)
        finally:
            router.close()

    asyncio.run(run())


def test_each_filter_gets_a_number(redis_server: RedisServer, redis_client: RedisClient) -> None:
    async def work(registry: RedisRegistry, _: Subscriptions) -> None:
        assert await registry.register(request("a", 7, 8), resolution()) == (1, 2)
        assert await registry.register(request("b", 7), resolution()) == (3,)
        # The same again is the same subscription; another one under its nsid is not.
        assert await registry.register(request("a", 7), resolution()) == (1,)
        assert await registry.register(request("a", 7), resolution("other")) == (4,)
        # It is registered until its replacement is in force, and so a rebuild holds both.
        assert set(registered(redis_client)) == {1, 2, 3, 4}
        await registry.forget([1])

    on_registry(redis_server.url, work)
    found = registered(redis_client)
    assert {number: (one.client_id, one.nsid) for number, one in found.items()} == {
        2: ("a", 8),
        3: ("b", 7),
        4: ("a", 7),
    }
    assert found[2] == Registration("a", 8, "f/8", DESCRIPTOR, "hash", "b")


def test_what_is_over_is_forgotten_unless_it_is_in_force_again(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    async def work(registry: RedisRegistry, subscriptions: Subscriptions) -> None:
        await registry.register(request("a", 1, 2, 3), resolution())
        await registry.forget([1])
        assert set(registered(redis_client)) == {2, 3}
        # Subscribed again while the end of the first was on its way.
        subscriptions.add(0, 2)
        await registry.forget([2, 99])
        assert set(registered(redis_client)) == {2, 3}
        # Its nsid belongs to another one by now.
        (new,) = await registry.register(request("a", 3), resolution("other"))
        await registry.forget([3])
        assert set(registered(redis_client)) == {2, new}
        assert await registry.register(request("a", 3), resolution("other")) == (new,)

    on_registry(redis_server.url, work)


def test_an_emptied_registry_gets_its_subscriptions_back_under_their_numbers(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    async def work(registry: RedisRegistry, subscriptions: Subscriptions) -> None:
        await registry.register(request("client 0", 1), resolution())
        one = subscriptions.add(0, 1)
        subscriptions.add(1, 40)
        redis_client.flushall()
        with pytest.raises(StoreAwayError, match="is being restored"):
            await registry.register(request("new", 1), resolution())
        await registry.keep_in_step(subscriptions.in_force, renumber)
        found = registered(redis_client)
        assert set(found) == {1, 40}
        assert found[1].client_id == "client 0"
        assert found[1].descriptor == one.terms.descriptor
        # No number is given twice.
        assert await registry.register(request("new", 1), resolution()) == (41,)

    on_registry(redis_server.url, work)


def test_a_registry_has_another_name_whenever_something_was_put_back(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    """So a generation that was begun in between is not taken for one that holds everything."""

    async def run() -> None:
        router = RedisRouter(redis_server.url, answer_seconds=2.0)
        held = [Subscriptions(), Subscriptions()]
        brokers = [
            RedisRegistry(router, name, one.slots_by_sub_id, f"token {name}")
            for name, one in zip("ab", held, strict=True)
        ]
        for number, (registry, one) in enumerate(zip(brokers, held, strict=True)):
            await registry.begin(one.in_force(), renumber)
            one.add(number, 10 + number)
        redis_client.flushall()
        names = []
        for turn in (0, 1, 0, 1):
            await brokers[turn].keep_in_step(held[turn].in_force, renumber)
            names.append(redis_client.get(registry_id_key()))
        assert names[0] != names[1]
        assert names[1] == names[2] == names[3], "then all is there"
        assert set(registered(redis_client)) == {10, 11}
        assert await brokers[0].register(request("new", 1), resolution()) == (12,)
        router.close()

    asyncio.run(run())


async def keep_in_step_soon(registry: RedisRegistry, subscriptions: Subscriptions) -> None:
    """As soon as the restarted server has read its data."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await registry.keep_in_step(subscriptions.in_force, renumber)
            except RedisLinkError:
                await asyncio.sleep(0.05)


def test_what_ends_while_redis_is_away_is_forgotten_later(tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with running_redis(tmp_path, *options) as server:

        async def work(registry: RedisRegistry, subscriptions: Subscriptions) -> None:
            await registry.register(request("a", 1, 2), resolution())
            server.kill()
            with pytest.raises(StoreAwayError, match="cannot be registered"):
                await registry.register(request("a", 3), resolution())
            await registry.forget([1])
            await asyncio.to_thread(server.restart)
            await keep_in_step_soon(registry, subscriptions)
            client = connect(server.url)
            assert set(registered(client)) == {2}
            client.close()

        on_registry(server.url, work)
