"""Subscribers can know: the world in force, and what changed in their own neighborhoods."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import shapely

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_number
from schemas.mqtt_names import CHANGES_TOPIC
from schemas.redis_keys import broker_told_key, subscriptions_key
from spaps.cli.command_line import run as run_command
from spaps.client.aio_client import AsyncSpatialClient
from spaps.client.errors import PublishRefusedError
from spaps.client.message import NeighborhoodChange
from spaps.client.spatial_client import SpatialClient
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.scenes.switch_scene import (
    ROADS_OF_1,
    ROADS_OF_2,
    Listener,
    broker_on,
    expected,
    members,
    peids_of,
    swapped_town,
)
from tests.servers.redis_server import RedisServer
from tests.servers.running_broker import PATIENCE, until

MODES = pytest.mark.parametrize("mode", ["memory", "redis"])
ROADS = peids_of(grid_town())
SHOPS_NEAR_2 = "({2},{shop},DW4)"


@pytest.fixture
def scene(tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient) -> RebuildScene:
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town())
    made.rebuild()
    return made


def counts(scene: RebuildScene, old: int, new: int, notation: str) -> tuple[int, int]:
    """Members gained and lost, by the exact resolver."""
    before, after = members(scene, old, notation), members(scene, new, notation)
    return len(after - before), len(before - after)


def counts_by_nsid(changes: list[NeighborhoodChange]) -> dict[int, tuple[int | None, int | None]]:
    return {one.nsid: (one.gained, one.lost) for one in changes}


@MODES
@pytest.mark.parametrize("push_says", [True, False], ids=["push says", "compared here"])
def test_each_client_is_notified_of_its_own_changes(
    scene: RebuildScene, mode: str, push_says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not push_says:
        monkeypatch.setattr("rebuild.push.keep_changes", lambda *_: None)
        # The generation before is there for half a minute. Here nobody waits for its end.
        monkeypatch.setattr("rebuild.steps.clean_up", lambda *_, **__: {})
    with broker_on(scene, mode) as (port, _):
        one, other = Listener(port, "one"), Listener(port, "other")
        nosy = SpatialClient("127.0.0.1", port, client_id="nosy", on_message=one_by_one(seen := []))
        nosy.connect(PATIENCE).subscribe_topic("$SYS/#", qos=1)
        nosy.subscribe_topic(f"$share/g/{CHANGES_TOPIC}", qos=1)
        one.client.subscribe("news/#", ROADS_OF_1, nsid=1)
        one.client.subscribe("news/#", SHOPS_NEAR_2, nsid=2)
        other.client.subscribe("news/#", ROADS_OF_2, nsid=1)
        scene.rebuild()  # now a generation holds these three
        until(lambda: generation_notified(scene) == 2, "the generation that holds them")
        one.client.subscribe("news/#", ROADS_OF_2, nsid=3)
        town = grid_town()
        del town[10]
        town[900] = (["shop"], shapely.Point(7.5, 0.5))
        scene.write_source(town)
        version = scene.rebuild()
        assert counts_by_nsid(one.next_changes(2)) == {
            1: counts(scene, 1, version, ROADS_OF_1),
            2: counts(scene, 1, version, SHOPS_NEAR_2),
        }
        world = one.wait_for_world(version)
        assert (world["neighborhoods"], world["withoutReferences"]) == (4, 0)
        assert world["pairs"] == len(scene.pairs_in_force())
        scene.write_source(swapped_town())
        version = scene.rebuild()
        changes = one.next_changes(3)
        assert {change.version for change in changes} == {version}
        assert counts_by_nsid(changes) == {
            nsid: counts(scene, version - 1, version, notation)
            for nsid, notation in ((1, ROADS_OF_1), (2, SHOPS_NEAR_2), (3, ROADS_OF_2))
        }
        assert counts_by_nsid(other.next_changes(1)) == {
            1: counts(scene, version - 1, version, ROADS_OF_2)
        }
        one.wait_for_world(version)
        assert other.changes.empty(), "what did not change is not notified"
        assert one.changes.empty()
        # Who holds no neighborhood hears of none, whatever it subscribes to.
        assert [message for message in seen if message.topic == CHANGES_TOPIC] == []
        assert any(message.topic == "$SYS/broker/world" for message in seen)
        with pytest.raises(PublishRefusedError):
            nosy.publish(CHANGES_TOPIC, b"{}", qos=1).wait(PATIENCE)
        for client in (one.client, other.client, nosy):
            client.close()


def one_by_one(into: list[Any]) -> Any:
    return into.append


@MODES
def test_references_vanish_and_come_back(scene: RebuildScene, mode: str) -> None:
    held = {1: ROADS_OF_1, 2: ROADS_OF_2, 3: ROADS_OF_1}
    with broker_on(scene, mode) as (port, process):
        one = Listener(port, "one")
        one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=1)
        one.client.subscribe("news/#", ROADS_OF_2, qos=1, nsid=2)
        scene.rebuild()
        one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=3)  # of no generation yet
        town = grid_town()
        del town[1]
        scene.write_source(town)
        scene.rebuild()
        lost = len(members(scene, 1, ROADS_OF_1))
        vanished = one.next_changes(2)
        assert counts_by_nsid(vanished) == {1: (0, lost), 3: (0, lost)}
        assert [change.has_references for change in vanished] == [False, False]
        assert one.wait_for_world(2)["withoutReferences"] == 2
        assert one.hears(ROADS) == expected(scene, 2, held, ROADS)
        # Killed before its note, a broker tells the same again (docs/promise.md).
        in_force = current_number(scene.client)
        until(lambda: generation_notified(scene) == in_force, "a note of what clients know")
        process.kill()
        process.wait()
        one.close()
    # Restored on a world in which the references are missing: nothing is dropped.
    with broker_on(scene, mode) as (port, _):
        one = Listener(port, "one", resumes=True)
        world = one.wait_for_world(2)
        assert (world["neighborhoods"], world["withoutReferences"]) == (3, 2)
        assert one.hears(ROADS) == expected(scene, 2, held, ROADS)
        scene.write_source(grid_town())
        scene.rebuild()
        back = one.next_changes(2)
        assert counts_by_nsid(back) == {1: (lost, 0), 3: (lost, 0)}
        assert [change.has_references for change in back] == [True, True]
        assert one.wait_for_world(3)["withoutReferences"] == 0
        assert one.hears(ROADS) == expected(scene, 3, held, ROADS)
        one.close()


def test_who_was_away_learns_on_return(scene: RebuildScene) -> None:
    """Away during a switch; then the broker itself is down during another."""
    with broker_on(scene) as (port, process):
        one = Listener(port, "one")
        one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=1)
        scene.rebuild()
        one.close()
        scene.write_source(swapped_town())
        scene.rebuild()
        watcher = Listener(port, "watcher")
        watcher.wait_for_world(2)
        watcher.close()
        one = Listener(port, "one", resumes=True)
        assert counts_by_nsid(one.next_changes(1)) == {1: counts(scene, 1, 2, ROADS_OF_1)}
        one.close()
        in_force = current_number(scene.client)
        until(lambda: generation_notified(scene) == in_force, "a note of what clients know")
        process.kill()
        process.wait()
    for town in (grid_town(), swapped_town()):
        scene.write_source({**town, 901: (["road/minor"], shapely.LineString([(1, 1), (2, 2)]))})
        scene.rebuild()
    with broker_on(scene) as (port, _):
        one = Listener(port, "one", resumes=True)
        [change] = one.next_changes(1)
        first, second = counts(scene, 2, 3, ROADS_OF_1), counts(scene, 3, 4, ROADS_OF_1)
        assert (change.gained, change.lost) == (first[0] + second[0], first[1] + second[1])
        one.wait_for_world(4)
        assert one.changes.empty()
        one.close()


def test_the_asyncio_client_and_the_command_tell_it_too(scene: RebuildScene) -> None:
    with broker_on(scene) as (port, _):
        command = [
            *(sys.executable, "-c", "from spaps.cli.command_line import main; main()", "sub"),
            *("-p", str(port), "-t", "news/#", "--neighborhood", ROADS_OF_1, "--nsid", "7"),
            *("--changes", "-C", "1", "-v"),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

            async def run() -> NeighborhoodChange:
                changes: asyncio.Queue[NeighborhoodChange] = asyncio.Queue()
                async with AsyncSpatialClient(
                    "127.0.0.1", port, on_neighborhood_change=changes.put_nowait
                ) as client:
                    await client.subscribe("news/#", ROADS_OF_1, nsid=5)
                    await asyncio.to_thread(until, lambda: registered(scene) == 2, "both")
                    scene.write_source(swapped_town())
                    await asyncio.to_thread(scene.rebuild)
                    async with asyncio.timeout(PATIENCE):
                        change = await changes.get()
                        await client.publish("news/x", "inside", peid=min(_inside(scene)), qos=1)
                    return change

            change = asyncio.run(run())
            gained, lost = counts(scene, 1, 2, ROADS_OF_1)
            assert (change.nsid, change.gained, change.lost) == (5, gained, lost)
            printed, _ = process.communicate(timeout=PATIENCE)
        assert printed.splitlines() == [
            f"neighborhood 7: +{gained} -{lost} (world version 2)",
            "news/x inside",
        ]


@MODES
def test_the_first_generation_is_notified_too(
    mode: str, tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient
) -> None:
    """Before it there is a world without any generation, and clients are served by that."""
    scene = RebuildScene(tmp_path, redis_server.url, redis_client)
    scene.write_source(grid_town())
    import_source(scene)
    lost = len(members(scene, 1, ROADS_OF_1) & {10, 11})
    assert lost == 2
    with broker_on(scene, mode) as (port, process):
        one = Listener(port, "one")
        one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=1)
        one.client.subscribe("news/#", ROADS_OF_2, qos=1, nsid=2)
        town = grid_town()
        del town[10], town[11]
        scene.write_source(town)
        assert scene.rebuild() == 2
        assert current_number(scene.client) == 1, "the first one"
        [change] = one.next_changes(1)
        assert (change.nsid, change.gained, change.lost) == (1, 0, 2)
        one.wait_for_world(2)
        assert one.changes.empty()
        one.close()
        process.kill()
        process.wait()


def test_the_first_generation_is_notified_after_a_start(
    tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient
) -> None:
    """It came while the broker was down: who has a session learns of it, without counts."""
    scene = RebuildScene(tmp_path, redis_server.url, redis_client)
    scene.write_source(grid_town())
    import_source(scene)
    with broker_on(scene) as (port, process):
        one = Listener(port, "one")
        one.client.subscribe("news/#", ROADS_OF_1, qos=1, nsid=1)
        until(lambda: scene.client.get(broker_told_key("broker")) is not None, "a note")
        one.close()
        process.kill()
        process.wait()
    scene.write_source(swapped_town())
    scene.rebuild()
    with broker_on(scene) as (port, _):
        one = Listener(port, "one", resumes=True)
        assert counts_by_nsid(one.next_changes(1)) == {1: (None, None)}
        one.close()


def import_source(scene: RebuildScene) -> None:
    """Make a world version without a generation, as ``spaps import`` does."""
    assert run_command(["import", str(scene.source), "--world", scene.places.world]) == 0


def generation_notified(scene: RebuildScene) -> int:
    """The generation that the broker has notified its clients of."""
    noted = scene.client.get(broker_told_key("broker"))
    return 0 if noted is None else int(json.loads(noted)["generation"])


def registered(scene: RebuildScene) -> int:
    return int(scene.client.hlen(subscriptions_key()))


def _inside(scene: RebuildScene) -> set[int]:
    return members(scene, 2, ROADS_OF_1)
