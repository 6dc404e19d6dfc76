"""The whole broker with Redis behind it, killed: what was acknowledged is there afterwards."""

from __future__ import annotations

import re
import select
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from redis_link.client import connect
from schemas.generation import RegistryCoverage
from schemas.redis_keys import registry_id_key
from tests.integration.broker.conftest import Surroundings
from tests.integration.broker.membership_scene import push
from tests.integration.broker.running_broker import COMMAND, PATIENCE, until
from tests.servers.redis_server import RedisServer, running_redis

NOTHING_IS_LOST = ("--appendonly", "yes", "--appendfsync", "always")


@contextmanager
def killable_broker(folder: Path, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A broker that ends by SIGKILL; its port and process."""
    with (folder / "broker.log").open("a") as log:
        process = subprocess.Popen(
            [*COMMAND, "--listen", "127.0.0.1:0", "--allow-anonymous", *arguments],
            stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], PATIENCE)
        ready = process.stdout.readline() if readable else ""
        found = re.search(r":(\d+) \(default\)", ready)
        assert found is not None, f"{ready}{(folder / 'broker.log').read_text()}"
        yield int(found[1]), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Client:
    """paho with a session that outlives it."""

    def __init__(self, port: int, client_id: str) -> None:
        self.messages: Queue[paho.MQTTMessage] = Queue()
        self.acknowledged: Queue[int] = Queue()
        self._connected: Queue[bool] = Queue()
        self._subscribed = threading.Event()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_publish = lambda _client, _data, _mid, code, _: self.acknowledged.put(
            int(code.value)
        )
        self.client.on_connect = lambda _client, _data, flags, *_: self._connected.put(
            flags.session_present
        )
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3_600
        self.client.connect("127.0.0.1", port, clean_start=False, properties=properties)
        self.client.loop_start()
        self.is_resumed = self._connected.get(timeout=PATIENCE)

    def subscribe(self, topic_filter: str, qos: int, *pairs: tuple[str, str]) -> None:
        properties = Properties(PacketTypes.SUBSCRIBE)
        if pairs:
            properties.UserProperty = list(pairs)
        self._subscribed.clear()
        self.client.subscribe(
            topic_filter, options=SubscribeOptions(qos=qos), properties=properties
        )
        assert self._subscribed.wait(PATIENCE)

    def publish(self, topic: str, payload: str, qos: int, peid: int | None = None) -> int:
        """The reason code with which the broker acknowledged it."""
        properties = Properties(PacketTypes.PUBLISH)
        if peid is not None:
            properties.UserProperty = [("peid", str(peid))]
        retain = topic.startswith("kept/")
        self.client.publish(topic, payload, qos, retain=retain, properties=properties)
        return self.acknowledged.get(timeout=PATIENCE)

    def receive(self, count: int) -> list[str]:
        return [self.messages.get(timeout=PATIENCE).payload.decode() for _ in range(count)]

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def arguments(city: Path, server: RedisServer, mode: str) -> tuple[str, ...]:
    return ("--world", str(city), "--redis", server.url, "--memberships", mode)


@pytest.mark.parametrize("mode", ["memory", "redis"])
def test_a_killed_broker_comes_back_with_everything_it_acknowledged(
    tmp_path: Path, city: Path, surroundings: Surroundings, redis_server: RedisServer, mode: str
) -> None:
    options = arguments(city, redis_server, mode)
    with killable_broker(tmp_path, *options) as (port, _):
        subscriber = Client(port, "subscriber")
        assert not subscriber.is_resumed
        subscriber.subscribe("plain/#", 2)
        subscriber.subscribe("near/#", 1, ("neighborhood", surroundings.descriptor), ("nsid", "7"))
        subscriber.leave()
        publisher = Client(port, "publisher")
        for number in range(30):
            assert publisher.publish(f"plain/{number}", str(number), 1 + number % 2) < 0x80
        assert publisher.publish("near/a", "inside", 1, surroundings.inside) == 0
        assert publisher.publish("near/a", "outside", 1, surroundings.outside) == 16
        publisher.publish("kept/a", "retained", 1)
        publisher.client.loop_stop()
    # Killed. Another process takes over at once.
    with killable_broker(tmp_path, *options) as (port, _):
        subscriber = Client(port, "subscriber")
        assert subscriber.is_resumed
        # Each QoS in its order, as MQTT promises it.
        received = subscriber.receive(31)
        even = [payload for payload in received if payload == "inside" or not int(payload) % 2]
        assert even == [*map(str, range(0, 30, 2)), "inside"]
        assert [one for one in received if one not in even] == [*map(str, range(1, 30, 2))]
        publisher = Client(port, "publisher")
        assert publisher.is_resumed
        # The neighborhood is in force as before, without being subscribed to again.
        assert publisher.publish("near/b", "outside", 1, surroundings.outside) == 16
        assert publisher.publish("near/b", "inside again", 1, surroundings.inside) == 0
        assert subscriber.receive(1) == ["inside again"]
        subscriber.subscribe("kept/#", 1)
        assert subscriber.receive(1) == ["retained"]
        subscriber.client.loop_stop()
        publisher.client.loop_stop()
    # Once more: what was not acknowledged in time may come again at QoS 1, never at QoS 2.
    with killable_broker(tmp_path, *options) as (port, _):
        subscriber = Client(port, "subscriber")
        publisher = Client(port, "publisher")
        publisher.publish("plain/x", "last", 1)
        while (message := subscriber.messages.get(timeout=PATIENCE)).payload != b"last":
            assert message.qos == 1
        subscriber.client.loop_stop()
        publisher.client.loop_stop()


def test_while_redis_is_away_memory_mode_serves_on_and_refuses_new_neighborhoods(
    tmp_path: Path, city: Path, surroundings: Surroundings
) -> None:
    spatial = ("neighborhood", surroundings.descriptor)
    with running_redis(tmp_path / "redis", *NOTHING_IS_LOST) as server:
        options = arguments(city, server, "memory")
        with killable_broker(tmp_path, *options) as (port, _):
            subscriber = Client(port, "subscriber")
            codes: Queue[Any] = Queue()
            subscriber.subscribe("near/#", 1, spatial, ("nsid", "1"))
            subscriber.client.on_subscribe = lambda _c, _d, _m, reasons, _p: codes.put(
                reasons[0].value
            )
            publisher = Client(port, "publisher")
            server.kill()
            publisher.publish("near/a", "without Redis", 1, surroundings.inside)
            assert subscriber.receive(1) == ["without Redis"]
            properties = Properties(PacketTypes.SUBSCRIBE)
            properties.UserProperty = [spatial, ("nsid", "2")]
            again = SubscribeOptions(qos=1)
            subscriber.client.subscribe("near/#", options=again, properties=properties)
            assert codes.get(timeout=PATIENCE) >= 0x80
            server.restart()
            # It is served again by itself, as soon as Redis is back.
            while True:
                subscriber.client.subscribe("near/#", options=again, properties=properties)
                if codes.get(timeout=PATIENCE) < 0x80:
                    break
            publisher.publish("near/a", "with Redis", 1, surroundings.inside)
            assert subscriber.receive(1) == ["with Redis"]
            subscriber.leave()
            publisher.leave()
        with killable_broker(tmp_path, *options) as (port, _):
            assert Client(port, "subscriber").is_resumed


def test_redis_mode_answers_with_a_reason_code_while_redis_is_away(
    tmp_path: Path, city: Path, surroundings: Surroundings
) -> None:
    with running_redis(tmp_path / "redis", *NOTHING_IS_LOST) as server:
        options = arguments(city, server, "redis")
        with killable_broker(tmp_path, *options) as (port, _):
            client = Client(port, "client")
            spatial = ("neighborhood", surroundings.descriptor)
            client.subscribe("near/#", 1, spatial, ("nsid", "1"))
            redis = connect(server.url)
            registry: Any = redis.get(registry_id_key())
            coverage = RegistryCoverage(registry.decode(), 1)
            push(redis, {1: [surroundings.inside]}, coverage=coverage, version=2)
            redis.close()
            log = tmp_path / "broker.log"
            until(lambda: "generation 1 of world version 2" in log.read_text(), "the switch")
            assert client.publish("near/a", "one", 1, surroundings.inside) == 0
            server.kill()
            # What is remembered serves on; what would have to be read is refused.
            assert client.publish("near/a", "two", 1, surroundings.inside) == 0
            assert client.publish("near/a", "three", 1, surroundings.outside) >= 0x80
            assert client.publish("far/a", "four", 1, surroundings.outside) == 16
            server.restart()
            while client.publish("near/a", "again", 1, surroundings.outside) >= 0x80:
                pass
            assert client.receive(2) == ["one", "two"]
            client.leave()
