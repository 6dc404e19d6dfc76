"""Sets or facts of a generation are lost: the broker resolves by itself, and says what repairs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.ports import StoreAwayError
from redis_link.connection.client import RedisClient
from schemas.errors import REPAIR_ADVICE
from schemas.redis_keys import (
    current_generation_key,
    generation_changes_key,
    generations_key,
    membership_key,
    registry_id_key,
    shard_index_key,
    shard_of,
)
from tests.scenes.following_broker import MODES, Broker
from tests.scenes.membership_scene import REGISTRY, push
from tests.servers.redis_server import RedisServer

PEIDS = (5, 6, 7)

FACTS = [current_generation_key(), generations_key()]


@pytest.fixture
def client(redis_client: RedisClient) -> RedisClient:
    redis_client.set(registry_id_key(), REGISTRY)
    return redis_client


def replace_by_list(client: RedisClient, key: str) -> None:
    client.delete(key)
    client.rpush(key, "of the wrong kind")


def broker_with_one(url: str, mode: str) -> Broker:
    broker = Broker(url, mode)
    broker.resolver.version = 1
    broker.resolver.know(1, broker.subscriptions.add(0, 1), PEIDS)
    return broker


async def members(broker: Broker) -> list[int]:
    """The entities of the one subscription; what is being given up is asked for again."""
    for _ in range(10):
        try:
            return [peid for peid in range(10) if await broker.slots_of(peid) == [0]]
        except StoreAwayError:
            await broker.follower._look()
    raise AssertionError("the sets are not given up")


Damage = Callable[[RedisClient, str], object]
DAMAGES = pytest.mark.parametrize(
    "damage", [lambda client, key: client.delete(key), replace_by_list], ids=["deleted", "a list"]
)


@DAMAGES
@pytest.mark.parametrize(
    ("mode", "key"),
    [
        ("memory", membership_key(1, 6)),
        ("redis", membership_key(1, 6)),
        # In mode redis the index is not needed to read a set.
        ("memory", shard_index_key(1, shard_of(6))),
    ],
)
def test_lost_sets_are_resolved_by_the_broker(
    redis_server: RedisServer, client: RedisClient, mode: str, key: str, damage: Damage
) -> None:
    push(client, {1: PEIDS}, up_to=1)
    damage(client, key)

    async def run() -> None:
        broker = broker_with_one(redis_server.url, mode)
        await broker.follower.load()
        assert await members(broker) == [*PEIDS]
        assert broker.follower.damage.endswith(REPAIR_ADVICE)
        # It is not tried again and again.
        switches = broker.follower.switches
        await broker.follower._look()
        assert broker.follower.switches == switches
        # The next generation is used again.
        push(client, {1: PEIDS}, up_to=1)
        await broker.follower._look()
        assert broker.follower.damage == ""
        asked = len(broker.resolver.asked)
        assert await members(broker) == [*PEIDS]
        assert len(broker.resolver.asked) == asked
        broker.router.close()

    asyncio.run(run())


@MODES
@DAMAGES
@pytest.mark.parametrize("key", FACTS)
def test_a_broker_starts_without_the_facts_of_the_generation(
    redis_server: RedisServer, client: RedisClient, mode: str, key: str, damage: Damage
) -> None:
    push(client, {1: PEIDS}, up_to=1)
    damage(client, key)

    async def run() -> None:
        broker = broker_with_one(redis_server.url, mode)
        await broker.follower.load()
        assert await members(broker) == [*PEIDS]
        if client.exists(current_generation_key()):
            assert broker.follower.damage.endswith(REPAIR_ADVICE)
        broker.router.close()

    asyncio.run(run())


@MODES
@DAMAGES
@pytest.mark.parametrize("key", [*FACTS, generation_changes_key(1)])
def test_a_running_broker_serves_on(
    redis_server: RedisServer, client: RedisClient, mode: str, key: str, damage: Damage
) -> None:
    push(client, {1: PEIDS}, up_to=1)

    async def run() -> None:
        broker = broker_with_one(redis_server.url, mode)
        await broker.follower.load()
        damage(client, key)
        await broker.follower._look()
        assert await members(broker) == [*PEIDS]
        broker.router.close()

    asyncio.run(run())
