"""Look-ups in a real Redis: right, in one round trip, remembered, and refused when in doubt."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.filter.memberships_redis import RedisMemberships
from broker.generations import memberships_redis_reader
from broker.generations.memberships_redis_reader import RedisReader
from broker.ports import StoreAwayError
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.redis_router import RedisRouter
from redis_link.generation.sweep import Retention, sweep_generations
from schemas.redis_keys import current_generation_key, generations_key
from tests.scenes.membership_scene import Subscriptions, push
from tests.servers.redis_server import RedisServer, cluster_url, running_cluster, running_redis


class Scene:
    """Memberships with a reader, on a generation."""

    def __init__(self, url: str, generation: int | None, answer_seconds: float = 5.0) -> None:
        self.router = RedisRouter(url, answer_seconds=answer_seconds)
        self.memberships = RedisMemberships()
        self.subscriptions = Subscriptions()
        self.changes = 0
        self.reader = RedisReader(
            self.router, self.memberships, self.subscriptions.slots_by_sub_id, self.note_change
        )
        self.use(generation)

    def note_change(self) -> None:
        self.changes += 1

    def use(self, generation: int | None) -> None:
        self.memberships.switch(self.memberships.begin_generation(), generation)


def on_scene(
    url: str, generation: int | None, work: Callable[[Scene], Coroutine[Any, Any, None]]
) -> None:
    async def run() -> None:
        scene = Scene(url, generation)
        try:
            await work(scene)
        finally:
            scene.router.close()

    asyncio.run(run())


def random_members(subscriptions: int) -> dict[int, list[int]]:
    random = np.random.default_rng(4)
    return {
        sub_id: random.choice(2_000, size=random.integers(1, 60), replace=False).tolist()
        for sub_id in range(1, subscriptions + 1)
    }


def check_random_look_ups(url: str, client: RedisClient) -> None:
    """All slots of many entities, some of whose subscriptions are not ours."""
    members = random_members(120)
    generation = push(client, members)

    async def work(scene: Scene) -> None:
        own = range(1, 101)
        for sub_id in own:
            scene.subscriptions.add(1_000 - sub_id, sub_id)
        peids = [*range(0, 2_000, 3), 10**15]
        found = await scene.reader.look_up(peids)
        assert scene.reader.round_trips == 1
        for peid in peids:
            expected = sorted(1_000 - sub_id for sub_id in own if peid in members[sub_id])
            assert list(found[peid]) == expected
            remembered = scene.memberships.look_up(peid)
            assert remembered is not None
            assert list(remembered) == expected
        assert scene.memberships.look_up(1) is None

    on_scene(url, generation, work)


def test_one_round_trip_for_all(redis_server: RedisServer, redis_client: RedisClient) -> None:
    check_random_look_ups(redis_server.url, redis_client)


def test_the_same_in_a_cluster(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as servers:
        client = connect(cluster_url(servers))
        check_random_look_ups(cluster_url(servers), client)
        client.close()


def test_what_is_added_is_seen_at_once(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    generation = push(redis_client, {1: [5, 6]})

    async def work(scene: Scene) -> None:
        scene.subscriptions.add(0, 1)
        assert dict(await scene.reader.look_up([5])) == {5: [0]}
        under_way = asyncio.create_task(scene.reader.look_up([6]))
        await asyncio.sleep(0)
        scene.subscriptions.add(1, 2)
        scene.memberships.add(1, np.array([5, 6]))
        assert scene.memberships.look_up(5) == [0, 1]
        assert dict(await under_way) == {6: [0, 1]}
        assert scene.memberships.look_up(6) == [0, 1]

    on_scene(redis_server.url, generation, work)


def test_without_a_generation_nothing_is_asked(redis_server: RedisServer) -> None:
    async def work(scene: Scene) -> None:
        scene.memberships.add(3, np.array([5]))
        assert scene.memberships.look_up(5) == (3,)
        assert scene.memberships.look_up(6) == ()
        assert dict(await scene.reader.look_up([5])) == {5: (3,)}
        assert scene.reader.round_trips == 0

    on_scene(redis_server.url, None, work)


def test_a_switch_while_sets_are_read_gives_the_new_ones(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    old = push(redis_client, {1: [5]})
    new = push(redis_client, {2: [5]})

    async def work(scene: Scene) -> None:
        scene.subscriptions.add(0, 1)
        scene.subscriptions.add(1, 2)
        under_way = asyncio.create_task(scene.reader.look_up([5]))
        await asyncio.sleep(0)
        scene.use(new)
        assert dict(await under_way) == {5: [1]}

    on_scene(redis_server.url, old, work)


def test_an_old_generation_is_read_until_it_is_removed(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    old = push(redis_client, {1: [5, 6, 7]})

    async def work(scene: Scene) -> None:
        scene.subscriptions.add(0, 1)
        await scene.reader.look_up([5])
        assert scene.changes == 0
        new = push(redis_client, {1: [8]})
        assert dict(await scene.reader.look_up([6])) == {6: [0]}
        assert scene.changes == 1, "the follower is told, also when no notice came"
        sweep_generations(redis_client, Retention(grace_seconds=0))
        under_way = asyncio.create_task(scene.reader.look_up([7, 8]))
        done, _ = await asyncio.wait({under_way}, timeout=0.3)
        assert not done, "removed sets are not taken for empty ones"
        scene.use(new)
        assert dict(await under_way) == {7: [], 8: [0]}

    on_scene(redis_server.url, old, work)


def test_an_emptied_redis_is_not_taken_for_empty_neighborhoods(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    generation = push(redis_client, {1: [5, 6]})

    async def work(scene: Scene) -> None:
        scene.subscriptions.add(0, 1)
        await scene.reader.look_up([5])
        redis_client.flushall()
        with pytest.raises(StoreAwayError, match="loaded again"):
            await scene.reader.look_up([6])
        assert scene.changes == 1
        assert scene.memberships.look_up(5) == [0], "what is known serves on"

    on_scene(redis_server.url, generation, work)


def test_the_wait_for_another_generation_ends(
    redis_server: RedisServer, redis_client: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = push(redis_client, {1: [5]})
    redis_client.set(current_generation_key(), generation + 1)
    redis_client.hdel(generations_key(), str(generation))
    monkeypatch.setattr(memberships_redis_reader, "ADOPTION_SECONDS", 0.1)

    async def work(scene: Scene) -> None:
        with pytest.raises(StoreAwayError, match="loaded again"):
            await scene.reader.look_up([5])

    on_scene(redis_server.url, generation, work)


def test_redis_away_and_back(tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with running_redis(tmp_path, *options) as server:
        client = connect(server.url)
        generation = push(client, {1: [5, 6, 7]})
        client.close()

        async def run() -> None:
            scene = Scene(server.url, generation, answer_seconds=0.5)
            scene.subscriptions.add(0, 1)
            assert dict(await scene.reader.look_up([5])) == {5: [0]}
            server.process.send_signal(signal.SIGSTOP)
            with pytest.raises(StoreAwayError, match="no answer"):
                await scene.reader.look_up([6])
            assert scene.memberships.look_up(5) == [0]
            server.process.send_signal(signal.SIGCONT)
            assert dict(await _until_read(scene, 6)) == {6: [0]}
            server.kill()
            with pytest.raises(StoreAwayError):
                await scene.reader.look_up([7])
            await asyncio.to_thread(server.restart)
            assert dict(await _until_read(scene, 7)) == {7: [0]}
            scene.router.close()

        asyncio.run(run())


async def _until_read(scene: Scene, peid: int) -> Any:
    async with asyncio.timeout(60):
        while True:
            try:
                return await scene.reader.look_up([peid])
            except StoreAwayError:
                await asyncio.sleep(0.05)
