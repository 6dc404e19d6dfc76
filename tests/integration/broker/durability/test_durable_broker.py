"""The whole broker with Redis behind it, killed: what was acknowledged is there afterwards."""

from __future__ import annotations

from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from redis_link.connection.client import connect
from schemas.generation import RegistryCoverage
from schemas.redis_keys import registry_id_key
from tests.scenes.membership_scene import push
from tests.scenes.surroundings import Surroundings
from tests.servers.killable_broker import (
    Client,
    check_all_is_in_force,
    killable_broker,
)
from tests.servers.redis_server import RedisServer, running_redis
from tests.servers.running_broker import PATIENCE, running_broker, until

NOTHING_IS_LOST = ("--appendonly", "yes", "--appendfsync", "always")


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
        check_all_is_in_force(port, subscriber, surroundings)
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
        with killable_broker(tmp_path, *options, gives_up=True) as (port, _):
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
        with killable_broker(tmp_path, *options, gives_up=True) as (port, _):
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


def test_a_redis_that_may_lose_things_is_warned_of_at_the_start_and_in_health(
    tmp_path: Path,
) -> None:
    evicting = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    options = ("--memberships", "none", "--allow-anonymous", "--http", "127.0.0.1:0")
    with (
        running_redis(tmp_path / "redis", *evicting) as server,
        running_broker(tmp_path, *options, "--redis", server.url) as broker,
    ):
        warnings = broker.health()["warnings"]
        assert isinstance(warnings, list)
        assert [line.split(":")[0] for line in warnings] == [
            "Redis evicts keys when its memory is full (maxmemory-policy allkeys-lru)",
            "Redis has no append-only file",
        ]
        assert all(line in broker.log for line in warnings)
        assert broker.health()["status"] == "ok"


def test_a_redis_that_keeps_everything_needs_no_warning(tmp_path: Path) -> None:
    options = ("--memberships", "none", "--allow-anonymous", "--http", "127.0.0.1:0")
    with (
        running_redis(tmp_path / "redis", "--appendonly", "yes") as server,
        running_broker(tmp_path, *options, "--redis", server.url) as broker,
    ):
        assert broker.health()["warnings"] == []
