"""Both modes follow the generation in force: by notice, without one, after a loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
import pytest

from redis_link.connection.client import RedisClient
from schemas.redis_keys import current_generation_key, registry_id_key
from tests.scenes.following_broker import MODES, Broker, loaded
from tests.scenes.membership_scene import REGISTRY, push
from tests.servers.redis_server import RedisServer


@asynccontextmanager
async def following(broker: Broker) -> AsyncIterator[None]:
    task = asyncio.create_task(broker.follower.follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        broker.router.close()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the follower tells nobody
            await asyncio.sleep(0.01)


@MODES
def test_restored_subscriptions_get_their_members_before_the_first_client(
    redis_server: RedisServer, client: RedisClient, mode: str
) -> None:
    generation = push(client, {1: [5, 6], 2: [6], 9: [5, 6]}, up_to=9, version=3)

    async def run() -> None:
        broker = Broker(redis_server.url, mode)
        broker.subscriptions.add(0, 1)
        broker.subscriptions.add(1, 2)
        late = broker.subscriptions.add(2, 12)
        broker.resolver.know(3, late, [6, 7])
        await broker.follower.load()
        assert [await broker.slots_of(peid) for peid in (5, 6, 7, 8)] == [[0], [0, 1, 2], [2], []]
        assert broker.resolver.version == 3
        assert len(broker.resolver.asked) == 1, "only what the generation lacks is resolved"
        assert broker.follower.facts is not None
        assert broker.follower.facts.generation == generation
        broker.router.close()

    asyncio.run(run())


@MODES
@pytest.mark.parametrize("has_generation", [True, False])
def test_without_a_generation_that_knows_us_everything_is_resolved(
    redis_server: RedisServer, client: RedisClient, mode: str, has_generation: bool
) -> None:
    """None yet, or one of a file, whose subIds are others' numbers."""
    if has_generation:
        push(client, {1: [100]}, version=2)

    async def run() -> None:
        broker = Broker(redis_server.url, mode)
        one = broker.subscriptions.add(0, 1)
        broker.resolver.version = 2
        broker.resolver.know(2, one, [5])
        await broker.follower.load()
        found = [await broker.slots_of(5), await broker.slots_of(100)]
        # The set of a file names subId 1 too, and means another.
        assert found == [[0], []]
        broker.router.close()

    asyncio.run(run())


@MODES
@pytest.mark.parametrize("with_notice", [True, False])
def test_a_switch_is_followed_wholly(
    redis_server: RedisServer, client: RedisClient, mode: str, with_notice: bool
) -> None:
    push(client, {1: [5], 2: [5, 6]}, up_to=2, version=1)

    async def run() -> None:
        broker = Broker(redis_server.url, mode)
        broker.subscriptions.add(0, 1)
        broker.subscriptions.add(1, 2)
        await broker.follower.load()
        broker.subscribe(2, 3, [5, 9])
        broker.subscribe(3, 4, [5])
        if not with_notice:
            broker.router.listen = _deaf  # type: ignore[method-assign]
        async with following(broker):
            assert await broker.slots_of(5) == [0, 1, 2, 3]
            broker.resolver.know(2, broker.subscriptions.by_slot[3], [6])
            # Holds subscription 3 now, and 4 came after it was begun.
            await asyncio.to_thread(push, client, {1: [6], 2: [7], 3: [5]}, up_to=3, version=2)
            await until(lambda: broker.follower.switches == 2)
            answers = [await broker.slots_of(peid) for peid in (5, 6, 7, 9)]
            assert answers == [[2], [0, 3], [1], []]

    asyncio.run(run())


async def _deaf(*_: Any) -> Any:
    class Silent:
        is_open = True

        def close(self) -> None:
            """Never hears anything."""

    return Silent()


@MODES
def test_subscriptions_that_come_while_the_next_generation_is_built(
    redis_server: RedisServer, client: RedisClient, mode: str
) -> None:
    push(client, {1: [5]}, up_to=1, version=1)

    async def run() -> None:
        async with loaded(redis_server.url, mode) as broker:
            broker.subscribe(1, 2, [5])
            broker.resolver.know(2, broker.subscriptions.by_slot[1], [6])

            def meanwhile() -> None:
                broker.resolver.meanwhile = lambda: None
                # One that was resolved on the old world alone, and one on both.
                broker.subscribe(2, 3, [5])
                broker.resolver.know(2, broker.subscriptions.by_slot[2], [6, 7])
                broker.subscriptions.add(3, 4)
                broker.memberships.add(3, np.array([5]), np.array([7]))

            broker.resolver.meanwhile = meanwhile
            push(client, {1: [6]}, up_to=1, version=2)
            await broker.follower._look()
            answers = [await broker.slots_of(peid) for peid in (5, 6, 7)]
            assert answers == [[], [0, 1, 2], [2, 3]]

    asyncio.run(run())


def test_an_emptied_redis(redis_server: RedisServer, client: RedisClient) -> None:
    """Memory mode serves on with what it has; mode redis resolves what was only there."""
    push(client, {1: [5]}, up_to=1, version=1)

    async def run() -> None:
        for mode, expected in (("memory", [0]), ("redis", [0])):
            broker = Broker(redis_server.url, mode)
            one = broker.subscriptions.add(0, 1)
            broker.resolver.know(1, one, [5, 8])
            await broker.follower.load()
            assert await broker.slots_of(5) == expected
            client.flushall()
            await broker.follower._look()
            assert await broker.slots_of(5) == expected
            assert bool(broker.resolver.asked) == (mode == "redis")
            broker.router.close()
            client.set(registry_id_key(), REGISTRY)
            push(client, {1: [5]}, up_to=1, version=1)

    asyncio.run(run())


def test_the_same_number_after_redis_was_emptied_is_another_generation(
    redis_server: RedisServer, client: RedisClient
) -> None:
    assert push(client, {1: [5]}, up_to=1) == 1

    async def run() -> None:
        async with loaded(redis_server.url, "memory") as broker:
            client.flushall()
            client.set(registry_id_key(), REGISTRY)
            assert push(client, {1: [6]}, up_to=1) == 1
            await broker.follower._look()
            assert [await broker.slots_of(5), await broker.slots_of(6)] == [[], [0]]

    asyncio.run(run())


def test_a_notice_wakes_the_follower_at_once(
    redis_server: RedisServer, client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With looks an hour apart, only the notice can have done it."""
    monkeypatch.setattr("broker.generations.generation_watch.LOOK_SECONDS", 3_600.0)
    push(client, {1: [5]}, up_to=1)

    async def run() -> None:
        broker = Broker(redis_server.url, "memory")
        broker.subscriptions.add(0, 1)
        await broker.follower.load()
        async with following(broker):
            # Of this broker: connections of earlier tests may still be counted by Redis.
            await until(lambda: broker.follower._listening is not None)
            await asyncio.to_thread(push, client, {1: [6]}, up_to=1)
            await until(lambda: broker.follower.switches == 2)
            assert await broker.slots_of(6) == [0]
        assert client.get(current_generation_key()) == b"2"

    asyncio.run(run())


def test_news_during_a_look_lead_to_another(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.generations.generation_watch.LOOK_SECONDS", 3_600.0)

    async def run() -> None:
        broker = Broker(redis_server.url, "memory")
        looks = 0

        async def look() -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                broker.follower.look_soon()

        monkeypatch.setattr(broker.follower, "_look", look)
        async with following(broker):
            await until(lambda: looks == 2)

    asyncio.run(run())
