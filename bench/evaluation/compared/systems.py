"""What is compared: our broker in its modes, an in-database filter, Mosquitto, amqtt.

Every system has core 0 for itself and for its store, and the load generator has core 1. A system
that knows no neighborhoods does the same work with a topic, and a subscription, for each entity.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Final

from bench.broker import scene
from bench.broker.connection import SUBACK, Connection, LoadError
from bench.broker.peers import Served
from bench.evaluation.load.changes import KEPT, Changes, Request
from bench.evaluation.load.open_loop import OpenLoop
from bench.evaluation.load.process_time import processor_seconds
from bench.evaluation.workload import (
    DisjointWorkload,
    Messages,
    Published,
    Workload,
    nsid_of,
    numbers_of,
    padding,
)

MEMORY, REDIS, NONE = "memory", "Redis", "no filter"
MEMORY_COLD, REDIS_COLD = "memory, cold", "Redis, cold"
DATABASE, BATCHED = "in-database", "in-database, batched"
MOSQUITTO, AMQTT, POSTGIS = "Mosquitto", "amqtt", "PostGIS"

# In-database nothing is remembered, and amqtt compares each message with every filter: they need
# no warm-up, and cannot do the published rates.
NOTHING_REMEMBERED: Final = (DATABASE, BATCHED, AMQTT)
PUBLISHERS: Final = 10
# SUBSCRIBE packets of a client that are under way; the broker lets 100 wait.
AT_ONCE: Final = 50
FILTERS: Final = 2_000
# Packet identifiers of requests whose answers nobody waits for.
OTHER_IDENTIFIER: Final = 65_000
UNSUBSCRIBE: Final = 0xA2
# A system that uses less of its core than this is idle.
IDLE_SHARE: Final = 0.1
LOOK_SECONDS: Final = 0.3
IDLE_SECONDS: Final = 60.0


class System:
    """A running system. Subclasses say what is subscribed and published."""

    version = scene.MQTT_5

    def __init__(self, name: str, served: Served, processes: Sequence[int] = ()) -> None:
        self.name = name
        self.served = served
        self.processes = (served.pid, *processes)
        self._names = itertools.count()

    def open_loop(self, workload: Workload, publishers: int = PUBLISHERS) -> OpenLoop:
        """Connect and subscribe all clients of a workload."""
        clients = [self._client(workload, number) for number in range(workload.clients)]
        senders = [self.connect("p") for _ in range(publishers)]
        self.wait_until_idle(IDLE_SECONDS)
        return OpenLoop(clients, senders, self.processes)

    def wait_until_idle(self, seconds: float) -> None:
        """Wait, but not longer, for what the system still does: a world to prepare, a queue."""
        deadline = time.monotonic() + seconds
        used = processor_seconds(self.processes)
        while time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            before, used = used, processor_seconds(self.processes)
            if used - before <= IDLE_SHARE * LOOK_SECONDS:
                return

    def connect(self, kind: str) -> Connection:
        """Return one more client."""
        return Connection(self.served.port, f"{kind}{next(self._names)}", self.version)

    def messages(self, workload: Workload, published: Published) -> Messages:
        """Encode messages for this system."""
        digits = max(map(len, map(str, published.peids.tolist())))
        packets = [
            self.publish(workload, peid, number, padding(peid, digits))
            for peid, number in zip(
                published.peids.tolist(), published.numbers.tolist(), strict=True
            )
        ]
        return Messages(packets, published.copies)

    def changes(self, workload: Workload, rate: float, first: int) -> Changes:
        """Return a client that subscribes anew so many times a second, from a number on."""
        return Changes(self.connect("changing"), rate, self.request(workload), first)

    def request(self, workload: Workload) -> Request:
        """Return how a change is asked for."""
        raise NotImplementedError

    def publish(self, workload: Workload, peid: int, number: int, payload: bytes) -> bytes:
        """Encode a PUBLISH."""
        raise NotImplementedError

    def _client(self, workload: Workload, client: int) -> Connection:
        raise NotImplementedError


class NeighborhoodSystem(System):
    """Ours: one topic; each subscription has a neighborhood."""

    def request(self, workload: Workload) -> Request:
        """Return a SUBSCRIBE that replaces the neighborhood of an nsid."""

        def encode(number: int, packet_id: int) -> bytes:
            return _subscribe(
                workload.topic, packet_id, workload.descriptor(workload.subscriptions + number),
                str(KEPT + number % KEPT),
            )  # fmt: skip

        return encode

    def publish(self, workload: Workload, peid: int, number: int, payload: bytes) -> bytes:  # noqa: ARG002 - the filter finds the subscription
        """Encode a PUBLISH about an entity."""
        return _publish(workload.topic, scene.user_property("peid", str(peid)), payload)

    def _client(self, workload: Workload, client: int) -> Connection:
        connection = self.connect("c")
        numbers = numbers_of(workload, client)
        for start in range(0, len(numbers), AT_ONCE):
            packets = [
                _subscribe(workload.topic, place + 1, workload.descriptor(number),
                           nsid_of(workload, number))
                for place, number in enumerate(numbers[start : start + AT_ONCE])
            ]  # fmt: skip
            connection.socket.sendall(b"".join(packets))
            for _ in packets:
                first, body = connection.read_packet()
                if first != SUBACK or body[-1] > 2:
                    raise LoadError(f"a subscription was refused: {body[-200:]!r}")
        return connection


class WholeTopicSystem(System):
    """Ours without the filter: the publisher knows the subscription, which is the topic."""

    def publish(self, workload: Workload, peid: int, number: int, payload: bytes) -> bytes:
        """Encode a PUBLISH to the topic of a subscription."""
        about = scene.user_property("peid", str(peid))
        return _publish(f"{workload.topic}/{number:06}", about, payload)

    def _client(self, workload: Workload, client: int) -> Connection:
        connection = self.connect("c")
        connection.subscribe(
            [f"{workload.topic}/{number:06}" for number in numbers_of(workload, client)], 0
        )
        return connection


class TopicSystem(System):
    """Any other broker: a topic and a subscription for each entity."""

    def request(self, workload: Workload) -> Request:
        """Return the end of one subscription's topics and the SUBSCRIBE to another's."""

        def encode(number: int, packet_id: int) -> bytes:
            gone = self._topics(workload, workload.subscriptions + number - KEPT)
            packets = [] if number < KEPT else list(self._requests(UNSUBSCRIBE, gone))
            topics = self._topics(workload, workload.subscriptions + number)
            packets += self._requests(scene.SUBSCRIBE, topics, packet_id)
            return b"".join(packets)

        return encode

    def publish(self, workload: Workload, peid: int, number: int, payload: bytes) -> bytes:  # noqa: ARG002 - the topic says it
        """Encode a PUBLISH to the topic of an entity."""
        topic = scene.text(f"{workload.topic}/{peid}")
        return scene.packet(scene.PUBLISH, topic, scene.section(self.version), payload)

    def _client(self, workload: Workload, client: int) -> Connection:
        connection = self.connect("c")
        for number in numbers_of(workload, client):
            topics = self._topics(workload, number)
            for start in range(0, len(topics), FILTERS):
                connection.subscribe(topics[start : start + FILTERS], 0)
        return connection

    def _topics(self, workload: Workload, number: int) -> list[str]:
        return [f"{workload.topic}/{peid}" for peid in workload.members(number).tolist()]

    def _requests(self, kind: int, topics: list[str], last: int = 0) -> list[bytes]:
        """Return packets with these filters; the last one has the identifier, if one is given."""
        qos = b"\x00" if kind == scene.SUBSCRIBE else b""
        parts = [topics[start : start + FILTERS] for start in range(0, len(topics), FILTERS)]
        return [
            scene.packet(
                kind,
                (last if last and part is parts[-1] else OTHER_IDENTIFIER).to_bytes(2, "big"),
                scene.section(self.version),
                *(scene.text(topic) + qos for topic in part),
            )
            for part in parts
        ]


class OldTopicSystem(TopicSystem):
    """amqtt speaks MQTT 3.1.1, and compares each message with every filter."""

    version = scene.MQTT_311


# The lightest work there is: ten clients with one topic each.
LIGHT: Final = DisjointWorkload(10, 1)


def _subscribe(topic: str, packet_id: int, descriptor: str, nsid: str) -> bytes:
    properties = scene.section(
        scene.MQTT_5,
        scene.user_property("neighborhood", descriptor),
        scene.user_property("nsid", nsid),
    )
    filters = scene.text(topic) + b"\x00"
    return scene.packet(scene.SUBSCRIBE, packet_id.to_bytes(2, "big"), properties, filters)


def _publish(topic: str, about: bytes, payload: bytes) -> bytes:
    section = scene.section(scene.MQTT_5, about)
    return scene.packet(scene.PUBLISH, scene.text(topic), section, payload)
