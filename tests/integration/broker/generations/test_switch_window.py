"""Subscriptions made, changed and removed while a rebuild runs are right before and after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from redis_link.connection.client import RedisClient
from redis_link.registry.registry_reader import registered_subscriptions
from schemas.redis_keys import subscriptions_key
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.scenes.switch_scene import (
    ROADS_OF_1,
    ROADS_OF_2,
    Listener,
    between_reading_and_switch,
    broker_on,
    expected,
    peids_of,
    swapped_town,
)
from tests.servers.redis_server import RedisServer

MODES = pytest.mark.parametrize("mode", ["memory", "redis"])
HOPS = "({1},{road/#},C) • 2(Prev,{road/#},T)"
ROADS = peids_of(grid_town())


@pytest.fixture
def scene(tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient) -> RebuildScene:
    """A first version, in force, without any subscription."""
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town())
    made.rebuild()
    return made


def rebuild_swapped(scene: RebuildScene) -> None:
    scene.write_source(swapped_town())
    scene.rebuild()


@MODES
def test_made_removed_and_replaced_after_the_registry_was_read(
    scene: RebuildScene, mode: str
) -> None:
    with broker_on(scene, mode) as (port, _):
        one = Listener(port, "one")
        for nsid, notation in ((1, ROADS_OF_1), (2, ROADS_OF_1), (3, ROADS_OF_2), (4, HOPS)):
            one.client.subscribe("news/#", notation, qos=1, nsid=nsid)

        def meanwhile() -> None:
            one.client.unsubscribe(1)
            one.client.subscribe("news/#", ROADS_OF_2, qos=1, nsid=2)
            one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=5)
            # The same again, as after a reconnect, and given back and made anew.
            one.client.subscribe("news/#", ROADS_OF_2, qos=1, nsid=3)
            one.client.unsubscribe(4)
            one.client.subscribe("news/#", HOPS, qos=1, nsid=4)
            held = {2: ROADS_OF_2, 3: ROADS_OF_2, 4: HOPS, 5: ROADS_OF_1}
            assert one.hears(ROADS) == expected(scene, 1, held, ROADS)

        with between_reading_and_switch(meanwhile):
            rebuild_swapped(scene)
        one.wait_for_world(2)
        held = {2: ROADS_OF_2, 3: ROADS_OF_2, 4: HOPS, 5: ROADS_OF_1}
        assert one.hears(ROADS) == expected(scene, 2, held, ROADS)
        numbers = {nsid: ids for ids, nsid in registered(scene).items()}
        assert set(numbers) == {2, 3, 4, 5}
        # The next generation holds all of them, and nothing that is over.
        scene.write_source(grid_town())
        scene.rebuild()
        one.wait_for_world(3)
        assert one.hears(ROADS) == expected(scene, 3, held, ROADS)
        assert {sub_id for _, sub_id in scene.pairs_in_force()} <= set(numbers.values())
        one.close()


def registered(scene: RebuildScene) -> dict[int, int]:
    return {sub_id: entry.nsid for sub_id, entry in registered_subscriptions(scene.client)}


@MODES
def test_a_broker_restarted_in_the_window(scene: RebuildScene, mode: str) -> None:
    """Killed after the registry was read, it comes back before the switch or after it."""
    held = {1: ROADS_OF_1, 2: HOPS}
    with broker_on(scene, mode) as (port, process):
        one = Listener(port, "one")
        one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=1)

        def meanwhile() -> None:
            one.client.subscribe("news/#", HOPS, qos=1, nsid=2)
            process.kill()
            process.wait()

        with between_reading_and_switch(meanwhile):
            rebuild_swapped(scene)
        one.close()
    with broker_on(scene, mode) as (port, process):
        one = Listener(port, "one", resumes=True)
        assert one.wait_for_world(2)["neighborhoods"] == 2
        assert one.hears(ROADS) == expected(scene, 2, held, ROADS)

        def once_more() -> None:
            process.kill()
            process.wait()

        scene.write_source(grid_town())
        with between_reading_and_switch(once_more):
            scene.rebuild()
        one.close()
    with broker_on(scene, mode) as (port, _):
        one = Listener(port, "one", resumes=True)
        one.wait_for_world(3)
        assert one.hears(ROADS) == expected(scene, 3, held, ROADS)
        one.close()


def test_what_a_kill_left_half_done_in_the_registry(scene: RebuildScene) -> None:
    """Registered and never confirmed: over. In force and no longer registered: numbered anew."""
    with broker_on(scene) as (port, _):
        one = Listener(port, "one")
        for nsid in (1, 2):
            one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=nsid)
        of_nsid = {nsid: sub_id for sub_id, nsid in registered(scene).items()}
        one.close()
    # As a broker leaves it that was killed between the registry and the journal.
    scene.client.hdel(subscriptions_key(), str(of_nsid[2]))
    orphan = scene.subscribe([HOPS], "gone", "broker")[0]
    rebuild_swapped(scene)
    held = {1: ROADS_OF_1, 2: ROADS_OF_1}
    with broker_on(scene) as (port, _):
        one = Listener(port, "one", resumes=True)
        one.wait_for_world(2)
        assert one.hears(ROADS) == expected(scene, 2, held, ROADS)
        found = registered(scene)
        assert orphan not in found
        assert of_nsid[1] in found
        assert of_nsid[2] not in found
        assert sorted(found.values()) == [1, 2]
        one.close()
