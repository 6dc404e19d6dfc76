"""Named neighborhoods on a broker: used, changed, removed, rebuilt, lost and restored."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from queue import Queue

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from redis_link.connection.client import RedisClient, connect
from redis_link.registry.named_neighborhoods import add_name, all_names, remove_name, users_of
from redis_link.registry.registry_reader import registered_subscriptions
from schemas.errors import NamedNeighborhoodError, NameInUseError
from schemas.language.notation import read_neighborhood
from schemas.redis_keys import names_key
from spaps.cli.command_line import run
from spaps.client.errors import NeighborhoodRefusedError, SubscribeRefusedError
from spaps.client.message import Message, NeighborhoodChange
from spaps.client.spatial_client import SpatialClient
from tests.scenes.rebuild_scene import RebuildScene, grid_town
from tests.scenes.switch_scene import (
    ROADS_OF_1,
    ROADS_OF_2,
    Listener,
    broker_on,
    members,
    peids_of,
    swapped_town,
)
from tests.servers.redis_server import RedisServer, running_redis
from tests.servers.running_broker import PATIENCE, until

MODES = pytest.mark.parametrize("mode", ["memory", "redis"])
ROADS = peids_of(grid_town())
NEWS_IN_OLD = "$neighborhood/old/news/#"


@pytest.fixture
def scene(tmp_path: Path, redis_server: RedisServer, redis_client: RedisClient) -> RebuildScene:
    made = RebuildScene(tmp_path, redis_server.url, redis_client)
    made.write_source(grid_town())
    made.rebuild()
    return made


def name(scene: RebuildScene, notation: str, called: str = "old") -> None:
    add_name(scene.client, called, read_neighborhood(notation))


def inside(*listeners: Listener) -> list[set[int]]:
    """What each of them hears of messages about all roads, which the first one sends."""
    for one in listeners:
        one.client.subscribe_topic("end", qos=1)
    for peid in ROADS:
        listeners[0].client.publish("news/x", str(peid), peid=peid, qos=1)
    # A session that outlived its broker may get an earlier end again.
    last = secrets.token_bytes(8)
    listeners[0].client.publish("end", last, qos=1)
    return [{int(payload) for payload in payloads(one, last)} for one in listeners]


def payloads(one: Listener, last: bytes = b"") -> Iterator[bytes]:
    while True:
        message = one.messages.get(timeout=PATIENCE)
        if message.topic == "news/x":
            yield message.payload
        elif message.topic == "end" and message.payload == last:
            return


class Device:
    """A client of MQTT 3.1.1 that uses the neighborhood ``old``."""

    def __init__(self, port: int) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        self._messages: Queue[paho.MQTTMessage] = Queue()
        granted: Queue[int] = Queue()
        self._client.on_message = lambda _client, _data, message: self._messages.put(message)
        self._client.on_subscribe = lambda _c, _d, _mid, codes, _p: granted.put(codes[0].value)
        self._client.connect("127.0.0.1", port)
        self._client.subscribe([(NEWS_IN_OLD, 1), ("end", 1)])
        self._client.loop_start()
        assert granted.get(timeout=PATIENCE) == 1

    def heard(self) -> set[int]:
        """What it heard up to the next end."""
        found = set()
        while (message := self._messages.get(timeout=PATIENCE)).topic != "end":
            assert message.topic == "news/x"
            found.add(int(message.payload))
        return found

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@MODES
def test_a_change_reaches_all_who_use_the_name_and_they_are_told(
    scene: RebuildScene, mode: str
) -> None:
    name(scene, ROADS_OF_1)
    first, second = (members(scene, 1, notation) for notation in (ROADS_OF_1, ROADS_OF_2))
    with broker_on(scene, mode) as (port, _):
        by_property, by_topic = Listener(port, "property"), Listener(port, "topic")
        by_property.client.subscribe("news/#", "@old", qos=1, nsid=7)
        by_topic.client.subscribe_topic(NEWS_IN_OLD, qos=1)
        both, device = (by_property, by_topic), Device(port)
        assert inside(*both) == [first, first]
        assert device.heard() == first
        assert users_of(scene.client, "old") == 3
        name(scene, ROADS_OF_2)
        for one in both:
            (change,) = one.next_changes(1)
            assert (change.gained, change.lost) == (len(second - first), len(first - second))
            assert (change.name, change.has_references) == ("old", True)
        assert inside(*both) == [second, second]
        assert device.heard() == second
        device.close()
        until(lambda: users_of(scene.client, "old") == 2, "the old registrations to go")
        assert {one.name for _, one in registered_subscriptions(scene.client)} == {"old"}
        # Rebuilt as any other, on another world.
        scene.write_source(swapped_town())
        scene.rebuild()
        assert [one.next_changes(1)[0].version for one in both] == [2, 2]
        assert inside(*both) == [members(scene, 2, ROADS_OF_2)] * 2
        scene.assert_in_force(2)
        by_topic.client.unsubscribe_topic(NEWS_IN_OLD)
        assert inside(by_topic) == [set()]
        until(lambda: users_of(scene.client, "old") == 1, "one user")
        for one in both:
            one.close()


@pytest.mark.parametrize(
    "wanted", [["-t", "news/#", "--neighborhood", "@never"], ["-t", "$neighborhood/never/news/#"]]
)
def test_spaps_sub_prints_warnings_about_a_name(
    scene: RebuildScene, capsys: pytest.CaptureFixture[str], wanted: list[str]
) -> None:
    name(scene, "({1},{road/#},C AND T)", "never")
    with broker_on(scene) as (port, _):
        run(["sub", "-h", "127.0.0.1", "-p", str(port), "-W", "0", *wanted])
    assert capsys.readouterr().err.startswith("warning: stage 1: always empty")


def test_a_removed_name_leaves_its_users_without_members(
    scene: RebuildScene, capsys: pytest.CaptureFixture[str]
) -> None:
    name(scene, ROADS_OF_1)
    first = members(scene, 1, ROADS_OF_1)
    with broker_on(scene) as (port, process):
        one = Listener(port, "one")
        for filter_of_none in ("$neighborhood/new/news", "$neighborhood/ol/news"):
            with pytest.raises(SubscribeRefusedError, match="no neighborhood is named"):
                one.client.subscribe_topic(filter_of_none)
        with pytest.raises(NeighborhoodRefusedError, match="no neighborhood is named 'new'"):
            one.client.subscribe("news", "@new")
        one.client.subscribe("news/#", "@old", qos=1)
        with pytest.raises(NameInUseError, match="1 subscription uses"):
            remove_name(scene.client, "old", forced=False)
        assert remove_name(scene.client, "old", forced=True) == 1
        (change,) = one.next_changes(1)
        assert (change.gained, change.lost, change.has_references) == (0, len(first), False)
        assert inside(one) == [set()]
        with pytest.raises(NamedNeighborhoodError, match="no neighborhood is named"):
            remove_name(scene.client, "old", forced=True)
        capsys.readouterr()
        why = ["why", "--topic", "news/x", "--peid", str(min(first)), "--world", scene.places.world]
        assert run([*why, "--json"]) == 0
        _, row = map(json.loads, capsys.readouterr().out.splitlines())
        assert (row["name"], row["verdict"]) == ("old", "outside")
        assert row["text"] == "the name old was removed, or the client may not use it"
        scene.write_source(swapped_town())
        scene.rebuild()
        one.wait_for_world(2)
        assert inside(one) == [set()]
        one.close()
        process.kill()
        process.wait()
    # Given again while the broker is down: the subscription is still there.
    name(scene, ROADS_OF_2)
    with broker_on(scene) as (port, _):
        one = Listener(port, "one", resumes=True)
        (change,) = one.next_changes(1)
        second = members(scene, 2, ROADS_OF_2)
        assert (change.gained, change.lost) == (len(second), 0)
        assert inside(one) == [second]
        one.close()


def test_two_brokers_follow_without_a_notice(
    scene: RebuildScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    name(scene, ROADS_OF_1)
    with broker_on(scene) as (port, _):
        monkeypatch.setenv("SPAPS_BROKER_NAME", "other")
        # One that is started later knows the names too.
        with broker_on(scene, "redis") as (other_port, _):
            both = [Listener(port, "one"), Listener(other_port, "one")]
            for one in both:
                one.client.subscribe("news/#", "@old", qos=1)
            monkeypatch.setattr("redis_link.registry.named_neighborhoods.NAMES_CHANNEL", "nobody's")
            name(scene, ROADS_OF_2)
            for one in both:
                one.next_changes(1)
                assert inside(one) == [members(scene, 1, ROADS_OF_2)]
                one.close()


def test_names_that_redis_lost_are_put_back(scene: RebuildScene) -> None:
    name(scene, ROADS_OF_1)
    name(scene, ROADS_OF_2, "unused")
    with broker_on(scene) as (port, _):
        one = Listener(port, "one")
        one.client.subscribe("news/#", "@old", qos=1)
        one.client.subscribe("news/#", "@old", qos=1)
        inside(one)  # compared by now
        (before,) = [each for each in all_names(scene.client) if each.name == "old"]
        scene.client.delete(names_key())
        until(lambda: len(all_names(scene.client)) == 1, "the name in use")
        (after,) = all_names(scene.client)
        assert (after.name, after.descriptor) == (before.name, before.descriptor)
        assert after.neighborhood_hash == before.neighborhood_hash
        assert inside(one) == [members(scene, 1, ROADS_OF_1)]
        assert one.changes.empty()
        one.close()


def test_a_right_to_a_name_is_taken_away_and_given_back(
    scene: RebuildScene, tmp_path: Path
) -> None:
    rules, config = tmp_path / "rules", tmp_path / "spaps.toml"
    config.write_text(f'[broker]\nacl_file = "{rules}"\n')
    topics = "topic readwrite #\ntopic read $SYS/#\n"
    rules.write_text(f"{topics}neighborhood read old\n")
    name(scene, ROADS_OF_1)
    name(scene, ROADS_OF_1, "secret")
    with broker_on(scene, "memory", "--config", str(config)) as (port, process):

        def leave(names: str) -> None:
            rules.write_text(topics + names)
            process.send_signal(signal.SIGHUP)

        one = Listener(port, "one")
        with pytest.raises(SubscribeRefusedError):
            one.client.subscribe_topic("$neighborhood/secret/news/#")
        one.client.subscribe("news/#", "@old", qos=1)
        first = members(scene, 1, ROADS_OF_1)
        assert inside(one) == [first]
        leave("neighborhood deny old\n")
        assert one.next_changes(1)[0].lost == len(first)
        assert inside(one) == [set()]
        leave("")
        assert one.next_changes(1)[0].gained == len(first)
        assert inside(one) == [first]
        one.close()


def test_a_right_is_taken_away_while_redis_does_not_answer(tmp_path: Path) -> None:
    rules, config = tmp_path / "rules", tmp_path / "spaps.toml"
    config.write_text(f'[broker]\nacl_file = "{rules}"\n')
    topics = "topic readwrite #\ntopic read $SYS/#\n"
    rules.write_text(topics)
    with running_redis(tmp_path / "redis") as server, closing(connect(server.url)) as client:
        scene = RebuildScene(tmp_path, server.url, client)
        scene.write_source(grid_town())
        scene.rebuild()
        name(scene, ROADS_OF_1)
        first = members(scene, 1, ROADS_OF_1)
        changes: Queue[NeighborhoodChange] = Queue()
        heard: Queue[Message] = Queue()
        with (
            broker_on(scene, "memory", "--config", str(config)) as (port, process),
            SpatialClient(
                "127.0.0.1", port, on_message=heard.put, on_neighborhood_change=changes.put
            ) as one,
        ):
            one.connect(PATIENCE)
            one.subscribe("news/#", "@old", qos=1)
            one.subscribe_topic("end", qos=1)
            one.publish("news/x", b"before", peid=min(first), qos=1).wait(PATIENCE)
            assert heard.get(timeout=PATIENCE).payload == b"before"
            server.process.send_signal(signal.SIGSTOP)
            try:
                rules.write_text(f"{topics}neighborhood deny old\n")
                process.send_signal(signal.SIGHUP)
                assert changes.get(timeout=PATIENCE).lost == len(first)
                one.publish("news/x", b"after", peid=min(first), qos=1)
                one.publish("end", b"", qos=1)
                assert heard.get(timeout=PATIENCE).topic == "end"
            finally:
                server.process.send_signal(signal.SIGCONT)
            rules.write_text(topics)
            process.send_signal(signal.SIGHUP)
            assert changes.get(timeout=PATIENCE).gained == len(first)


def test_without_redis_names_are_refused_with_the_reason(scene: RebuildScene) -> None:
    with (
        broker_on(scene, "memory", "--redis", "none") as (port, _),
        SpatialClient("127.0.0.1", port) as client,
    ):
        client.connect(PATIENCE)
        with pytest.raises(NeighborhoodRefusedError, match="named neighborhoods are kept in"):
            client.subscribe("news", "@old")
        client.subscribe("news", ROADS_OF_1)


@MODES
def test_under_load_each_sees_wholly_the_old_or_wholly_the_new(
    scene: RebuildScene, mode: str
) -> None:
    """Messages about what only one of both holds show which one was in force for each of them."""
    name(scene, ROADS_OF_1)
    first, second = (members(scene, 1, notation) for notation in (ROADS_OF_1, ROADS_OF_2))
    sides = [sorted(first - second), sorted(second - first)]
    changes, users = 4, 8
    with broker_on(scene, mode) as (port, _):
        listeners = [Listener(port, f"user {number}") for number in range(users)]
        for number, one in enumerate(listeners):
            if number % 2:
                one.client.subscribe("news/#", "@old", qos=1)
            else:
                one.client.subscribe_topic(NEWS_IN_OLD, qos=1)
            one.client.subscribe_topic("end", qos=1)
        sent: list[int] = []
        with SpatialClient("127.0.0.1", port) as publisher:
            publisher.connect(PATIENCE)

            def publish(count: int) -> None:
                for _ in range(count):
                    side = sides[len(sent) % 2]
                    peid = side[len(sent) // 2 % len(side)]
                    publication = publisher.publish("news/x", str(len(sent)), peid=peid, qos=1)
                    sent.append(peid)
                publication.wait(PATIENCE)  # else the next change overtakes messages of this one

            for change in range(changes):
                publish(60)
                name(scene, ROADS_OF_1 if change % 2 else ROADS_OF_2)
                while any(one.changes.qsize() <= change for one in listeners):
                    publish(2)
            publish(60)
            publisher.publish("end", b"", qos=1).wait(PATIENCE)
        for one in listeners:
            heard = [int(payload) for payload in payloads(one)]
            assert heard == sorted(set(heard))
            assert turns_of(len(sent), set(heard)) == changes
            one.close()


def turns_of(sent: int, heard: set[int]) -> int:
    """How often the definition in force changed, by which of the messages were heard.

    Messages with even numbers are about the first definition, which is in force at the beginning.
    """
    in_force = [number % 2 if number in heard else 1 - number % 2 for number in range(sent)]
    assert in_force[0] == 0
    return sum(before != after for before, after in pairwise(in_force))


def test_a_mix_of_both_definitions_would_be_seen() -> None:
    assert turns_of(8, {0, 2, 5, 7}) == 1
    assert turns_of(8, {0, 2, 3, 4, 5, 7}) == 3, "both at once"
    assert turns_of(8, {0, 5, 7}) == 3, "neither"
