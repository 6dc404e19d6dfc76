"""How each broker plays the scenes: what its clients subscribe to, and what is published.

Ours takes neighborhoods and one topic. Mosquitto does the same work with one topic, and one
subscription, for each entity. Without the filter the topic alone selects the receiver. amqtt is
given the lightest work there is, because it compares each message with every filter.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import Final
from urllib.request import urlopen

from bench.broker import scene as scenes
from bench.broker.connection import Connection, LoadError
from bench.broker.load import Load
from bench.broker.peers import Served
from bench.broker.rate import Rate
from bench.broker.scene import MQTT_5, MQTT_311, Scene

STREAMS: Final = 4
CHUNK: Final = 500
WINDOW: Final = 20_000
MOST_SINGLES: Final = 100
SINGLE_PACKETS: Final = 500
# Filters in one SUBSCRIBE.
FILTERS: Final = 2_000


class Player:
    """A broker with subscribers. Subclasses say what is subscribed and published."""

    version = MQTT_5
    window = WINDOW
    chunk = CHUNK
    settings: tuple[str, ...] = ("stream", "singles")

    def __init__(self, served: Served) -> None:
        self.name = served.name
        self.served = served
        self._load: Load | None = None
        self._packets: list[bytes] = []
        self._names = itertools.count()
        self._publishers: list[Connection] = []

    def plays(self, scene: Scene) -> bool:  # noqa: ARG002 - most play all of them
        """Whether it takes part in a scene."""
        return True

    def subscribe(self, scene: Scene) -> None:
        """Connect and subscribe all clients, and prepare all packets."""
        clients = [self._client(scene, number) for number in range(scene.clients)]
        self._load = Load(clients, scene.copies, self.served.pid)
        published = scene.published()
        self._packets = [self._publish(scene, *one) for one in published]
        self._publishers = [self._connect("p") for _ in range(MOST_SINGLES)]

    def leave(self) -> None:
        """Let all clients go."""
        if self._load is not None:
            self._load.close()
        for client in self._publishers:
            client.socket.close()
        self._load, self._publishers = None, []

    def stream(self, seconds: float) -> Rate:
        """Publish at full speed."""
        chunks = [
            self._packets[start : start + self.chunk]
            for start in range(0, len(self._packets), self.chunk)
        ]
        publishers = self._publishers[:STREAMS]
        return self._running().stream(publishers, chunks, self.window, seconds)

    def singles(self, count: int, seconds: float) -> Rate:
        """Publish one message a packet, by so many publishers."""
        own = [
            [
                packet[:-1] + bytes([number])
                for packet in self._packets[number * SINGLE_PACKETS :][:SINGLE_PACKETS]
            ]
            for number in range(count)
        ]
        return self._running().singles(self._publishers[:count], own, seconds)

    def _running(self) -> Load:
        if self._load is None:
            raise LoadError(f"{self.name} has no subscribers")
        return self._load

    def _connect(self, kind: str) -> Connection:
        return Connection(self.served.port, f"{kind}{next(self._names)}", self.version)

    def _client(self, scene: Scene, number: int) -> Connection:
        raise NotImplementedError

    def _publish(self, scene: Scene, peid: int, neighborhood: int) -> bytes:
        raise NotImplementedError


class NeighborhoodPlayer(Player):
    """Ours: one topic, ten neighborhoods for each client."""

    def _client(self, scene: Scene, number: int) -> Connection:
        client = self._connect("c")
        for nsid, neighborhood in enumerate(scene.neighborhoods_of(number), scenes.FIRST_NSID):
            client.subscribe(
                [scene.topic], 1,
                scenes.user_property("neighborhood", scenes.descriptor_of(neighborhood)),
                scenes.user_property("nsid", str(nsid)),
            )  # fmt: skip
        return client

    def _publish(self, scene: Scene, peid: int, neighborhood: int) -> bytes:  # noqa: ARG002 - the filter finds it
        about = scenes.user_property("peid", str(peid))
        return scenes.publish(scene.topic, self.version, about)

    def wait_for_generation(self, generation: int, seconds: float) -> None:
        """Wait until the broker filters by a generation in Redis."""
        deadline = time.monotonic() + seconds
        address = f"http://127.0.0.1:{self.served.http_port}/health"
        while time.monotonic() < deadline:
            with urlopen(address, timeout=seconds) as page:
                if json.load(page)["generation"] == generation:
                    return
            time.sleep(0.1)
        raise LoadError(f"{self.name} did not change to generation {generation}")


class WholeTopicPlayer(Player):
    """Ours without the filter: a topic for each neighborhood, chosen by the publisher."""

    def _client(self, scene: Scene, number: int) -> Connection:
        client = self._connect("c")
        topics = [f"{scene.topic}/{one:03}" for one in scene.neighborhoods_of(number)]
        client.subscribe(topics, 1)
        return client

    def _publish(self, scene: Scene, peid: int, neighborhood: int) -> bytes:
        about = scenes.user_property("peid", str(peid))
        topic = f"{scene.topic}/{neighborhood:03}"
        return scenes.publish(topic, self.version, about)


class TopicPlayer(Player):
    """Any broker: a topic and a subscription for each entity."""

    def _client(self, scene: Scene, number: int) -> Connection:
        client = self._connect("c")
        for neighborhood in scene.neighborhoods_of(number):
            topics = [f"{scene.topic}/{peid}" for peid in scenes.members_of(neighborhood)]
            for start in range(0, len(topics), FILTERS):
                client.subscribe(topics[start : start + FILTERS], 1)
        return client

    def _publish(self, scene: Scene, peid: int, neighborhood: int) -> bytes:  # noqa: ARG002 - the topic says it
        return scenes.publish(f"{scene.topic}/{peid}", self.version)


class AmqttPlayer(Player):
    """For amqtt: ten clients with one topic each, MQTT 3.1.1, streams alone."""

    version = MQTT_311
    window = 500
    chunk = 50
    settings = ("stream",)

    def plays(self, scene: Scene) -> bool:
        """Return whether each publish has one match, and no more."""
        return scene.copies == 1

    def subscribe(self, scene: Scene) -> None:
        """Subscribe to the lightest scene instead of the given one."""
        super().subscribe(Scene(scene.topic, clients=10, copies=1))

    def _client(self, scene: Scene, number: int) -> Connection:
        client = self._connect("c")
        client.subscribe([f"{scene.topic}/{number}"], 0)
        return client

    def _publish(self, scene: Scene, peid: int, neighborhood: int) -> bytes:  # noqa: ARG002 - its clients have one topic each
        topic = f"{scene.topic}/{neighborhood // scenes.SUBSCRIPTIONS_OF_CLIENT}"
        return scenes.publish(topic, self.version)
