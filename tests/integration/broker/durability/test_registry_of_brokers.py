"""Brokers that share one Redis do not harm each other, and lost keys come back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import shapely

from broker.durability.registrations import registration_of
from broker.ports import StoreAwayError
from redis_link.connection.client import RedisClient
from schemas.errors import RedisLinkError
from schemas.redis_keys import (
    broker_subscriptions_key,
    brokers_key,
    client_subscriptions_key,
    last_sub_id_key,
    registry_id_key,
    shared_client_key,
    subscriptions_key,
)
from tests.scenes.membership_scene import Subscriptions
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.scenes.registry_scene import (
    opened_registry,
    registered,
    renumber,
    request,
    resolution,
)
from tests.scenes.switch_scene import (
    ROADS_OF_1,
    Listener,
    broker_on,
    expected,
    peids_of,
    swapped_town,
)
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import until


def test_a_client_that_leaves_one_broker_stays_registered_by_the_other(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    async def run() -> None:
        async with (
            opened_registry(redis_server.url, "east", Subscriptions()) as east,
            opened_registry(redis_server.url, "west", Subscriptions()) as west,
        ):
            (at_east,) = await east.register(request("ann", 7), resolution())
            (at_west,) = await west.register(request("ann", 7), resolution())
            await east.forget([at_east])
            assert set(registered(redis_client)) == {at_west}
            # Another neighborhood under the nsid at one broker changes nothing at the other.
            await east.register(request("ann", 7), resolution("other"))
            assert await west.register(request("ann", 7), resolution()) == (at_west,)

    asyncio.run(run())


def register_as_before(client: RedisClient, brokers: Sequence[str]) -> Subscriptions:
    """One subscription as earlier releases registered it: once for all brokers."""
    held = Subscriptions()
    entry = registration_of("", held.add(0, 1))
    assert entry is not None
    client.set(registry_id_key(), "registry")
    client.set(last_sub_id_key(), 1)
    client.hset(subscriptions_key(), "1", entry.to_json())
    client.hset(shared_client_key(entry.client_id), str(entry.nsid), 1)
    for broker in brokers:
        client.sadd(broker_subscriptions_key(broker), 1)
    return held


def test_what_an_earlier_release_shared_stays_until_every_broker_has_its_own(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    east = register_as_before(redis_client, ["east", "west"])
    west = Subscriptions()
    west.add(0, 1)

    async def start(broker: str, held: Subscriptions) -> None:
        async with opened_registry(redis_server.url, broker, held):
            pass

    asyncio.run(start("east", east))
    assert set(registered(redis_client)) == {1, *east.slots_by_sub_id()}
    asyncio.run(start("west", west))
    numbers = {*east.slots_by_sub_id(), *west.slots_by_sub_id()}
    assert len(numbers) == 2
    assert set(registered(redis_client)) == numbers
    assert not redis_client.exists(shared_client_key("client 0"))
    # And nothing more happens with the next start.
    asyncio.run(start("east", east))
    assert set(registered(redis_client)) == numbers


def test_a_process_that_was_replaced_changes_no_registration(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    async def run() -> None:
        held = Subscriptions()
        async with (
            opened_registry(redis_server.url, "b", Subscriptions(), "old") as old,
            opened_registry(redis_server.url, "b", held, "new") as new,
        ):
            (number,) = await new.register(request("ann", 7), resolution())
            with pytest.raises(StoreAwayError, match="another process runs the broker 'b'"):
                await old.register(request("ann", 7), resolution("other"))
            await old.forget([number])
            with pytest.raises(RedisLinkError, match="another process runs"):
                await old.keep_in_step(list, renumber)
            assert set(registered(redis_client)) == {number}

    asyncio.run(run())


def test_a_number_that_another_broker_took_meanwhile_is_not_fought_for(
    redis_server: RedisServer, redis_client: RedisClient
) -> None:
    """After a loss of the registry one broker may be faster, and give our number to its client."""

    async def run() -> None:
        held, losses = Subscriptions(), []
        noted = partial(losses.append, 1)
        async with (
            opened_registry(redis_server.url, "slow", held, on_loss=noted) as slow,
            opened_registry(redis_server.url, "fast", Subscriptions()) as fast,
        ):
            subscription = held.add(0, 1)
            redis_client.flushall()
            await fast.keep_in_step(list, renumber)
            assert await fast.register(request("ann", 7), resolution()) == (1,)
            await slow.keep_in_step(held.in_force, renumber)
            assert subscription.terms.sub_id == 2
            found = registered(redis_client)
            assert {number: one.broker for number, one in found.items()} == {1: "fast", 2: "slow"}
            assert losses == [1]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["deleted", "a list"])
@pytest.mark.parametrize(
    "key",
    [
        registry_id_key(), last_sub_id_key(), subscriptions_key(), brokers_key(),
        broker_subscriptions_key("b"), client_subscriptions_key("b", "client 0"),
    ],
)  # fmt: skip
def test_a_key_of_the_registry_that_is_lost_is_written_again(
    redis_server: RedisServer, redis_client: RedisClient, key: str, how: str
) -> None:
    async def run() -> None:
        held = Subscriptions()
        async with opened_registry(redis_server.url, "b", held) as registry:
            for slot in range(3):
                subscription = held.add(slot, slot + 1)
                entry = registration_of("b", subscription)
                assert entry is not None
                await registry._register(entry)
            before = registered(redis_client)
            redis_client.delete(key)
            if how == "a list":
                redis_client.rpush(key, "of the wrong type")
            await registry.keep_in_step(held.in_force, renumber)
            assert registered(redis_client) == before
            assert await registry.register(request("new", 1), resolution()) == (4,)
            await registry.register(request("client 0", 9), resolution())
            async with opened_registry(redis_server.url, "b", held, "next"):
                assert set(registered(redis_client)) == set(before)

    asyncio.run(run())


def test_two_brokers_on_one_redis_serve_the_same_client_id_apart(
    redis_server: RedisServer,
    redis_client: RedisClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = RebuildScene(tmp_path, redis_server.url, redis_client)
    scene.write_source(grid_town())
    scene.rebuild()
    roads = peids_of(grid_town())
    log = tmp_path / "broker.log"
    with ExitStack() as running:
        listeners = []
        for name in ("east", "west"):
            monkeypatch.setenv("SPAPS_BROKER_NAME", name)
            port, process = running.enter_context(broker_on(scene))
            said = f"broker 'east' runs on this Redis too (process {process.pid}"
            listeners.append(Listener(port, "ann"))
            listeners[-1].client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=7)
            if name == "east":
                assert "runs on this Redis too" not in log.read_text()
                first = said
        assert f"{first} on " in log.read_text()
        assert "share no clients" in log.read_text()
        east, west = listeners
        east.client.unsubscribe(7)
        scene.write_source(swapped_town())
        scene.rebuild()
        west.wait_for_world(2)
        assert west.hears(roads) == expected(scene, 2, {7: ROADS_OF_1}, roads)
        east.wait_for_world(2)
        assert east.hears(roads) == {}
        for listener in listeners:
            listener.close()


@pytest.mark.parametrize("mode", ["memory", "redis"])
def test_a_rebuild_of_another_world_on_one_redis_changes_nothing(
    redis_server: RedisServer,
    redis_client: RedisClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """Its generations hold all subscriptions of the Redis, resolved on that other world."""
    ours, other = (
        RebuildScene(tmp_path / name, redis_server.url, redis_client) for name in ("ours", "other")
    )
    ours.write_source(swapped_town())
    other.write_source(grid_town())
    ours.rebuild()
    roads, held = peids_of(grid_town()), {7: ROADS_OF_1}
    right = expected(ours, 1, held, roads)
    log = ours.folder / "broker.log"
    said = "was built for another world"
    monkeypatch.setenv("SPAPS_BROKER_NAME", "ours")
    with broker_on(ours, mode) as (port, _):
        listener = Listener(port, "ann")
        listener.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=7)
        ours.rebuild()
        listener.wait_for_world(1)
        assert listener.hears(roads) == right
        assert said not in log.read_text()
        # First by a version that our world has too, then by one that it has not.
        for version in (1, 2):
            assert other.rebuild() == version
            assert expected(other, version, held, roads) != right
            until(lambda count=version: log.read_text().count(said) == count, "a look at it")
            assert listener.hears(roads) == right
            other.write_source({**grid_town(), 999: (["shop"], shapely.Point(1, 1))})
        listener.close()
    with broker_on(ours, mode) as (port, _):
        listener = Listener(port, "ann", resumes=True)
        assert listener.hears(roads) == right
        generation = ours.rebuild()
        assert generation == 1
        until(lambda: "generation 5 of world version 1 in force" in log.read_text(), "our own")
        assert listener.hears(roads) == right
        listener.close()
