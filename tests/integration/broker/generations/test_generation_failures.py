"""A generation that cannot be adopted leaves the one before in force."""

from __future__ import annotations

import asyncio

import pytest

from broker.resolver.helper_process import HelperProcess
from redis_link.connection.client import RedisClient
from tests.scenes.following_broker import MODES, loaded
from tests.scenes.membership_scene import push
from tests.servers.redis_server import RedisServer


def test_a_killed_loader_leaves_the_old_generation_in_force(
    redis_server: RedisServer, client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(client, {1: [5]}, up_to=1, version=1)

    start = HelperProcess.start

    async def start_and_kill(module: str) -> HelperProcess:
        process = await start(module)
        process.kill()
        return process

    async def run() -> None:
        async with loaded(redis_server.url, "memory") as broker:
            push(client, {1: [6]}, up_to=1, version=2)
            with monkeypatch.context() as patched:
                patched.setattr(HelperProcess, "start", start_and_kill)
                await broker.follower._look()
            assert [await broker.slots_of(5), await broker.slots_of(6)] == [[0], []]
            assert "loader process ended" in broker.follower.problem
            assert broker.resolver.coming is None, "the world that was to come is given up"
            await broker.follower._look()
            assert [await broker.slots_of(5), await broker.slots_of(6)] == [[], [0]]
            assert broker.follower.problem == ""

    asyncio.run(run())


def test_whatever_goes_wrong_is_tried_again(
    redis_server: RedisServer, client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(client, {1: [5]}, up_to=1, version=1)

    async def run() -> None:
        async with loaded(redis_server.url, "memory") as broker:
            push(client, {1: [6]}, up_to=1, version=2)
            with monkeypatch.context() as patched:
                patched.setattr("broker.generations.generation_adoption.load_generation", None)
                await broker.follower._look()
            assert await broker.slots_of(5) == [0]
            assert broker.follower.problem.startswith("TypeError")
            await broker.follower._look()
            assert await broker.slots_of(6) == [0]

    asyncio.run(run())


@MODES
def test_a_resolver_that_cannot_answer_leaves_the_old_generation_in_force(
    redis_server: RedisServer, client: RedisClient, mode: str
) -> None:
    push(client, {1: [5]}, up_to=1, version=1)

    async def run() -> None:
        async with loaded(redis_server.url, mode) as broker:
            broker.subscribe(1, 2, [5])
            broker.resolver.know(2, broker.subscriptions.by_slot[1], [6])
            push(client, {1: [6]}, up_to=1, version=2)
            broker.resolver.broken = True
            await broker.follower._look()
            assert [await broker.slots_of(5), broker.follower.switches] == [[0, 1], 1]
            broker.resolver.broken = False
            await broker.follower._look()
            assert [await broker.slots_of(5), await broker.slots_of(6)] == [[], [0, 1]]

    asyncio.run(run())


@MODES
def test_a_neighborhood_without_references_in_the_new_version_holds_nothing(
    redis_server: RedisServer, client: RedisClient, mode: str
) -> None:
    push(client, {1: [5]}, up_to=1, version=1)

    async def run() -> None:
        async with loaded(redis_server.url, mode) as broker:
            broker.subscribe(1, 2, [5])
            broker.resolver.tables[2] = {}
            push(client, {1: [5]}, up_to=1, version=2)
            await broker.follower._look()
            assert await broker.slots_of(5) == [0]

    asyncio.run(run())
