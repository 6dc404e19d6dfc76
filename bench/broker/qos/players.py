"""The same topics and the same sessions for every broker: what QoS 1 and 2 cost.

Each of 100 clients holds ten topics of its own, one for each neighborhood, so every publish goes
to one client. Ours plays it with its filter too: one topic, and neighborhoods in place of topics.
"""

from __future__ import annotations

import itertools
import time
from typing import Final

from bench.broker import scene as scenes
from bench.broker.connection import Connection, LoadError
from bench.broker.peers import Served
from bench.broker.qos.load import Batches, QosLoad
from bench.broker.rate import Rate
from bench.broker.scene import MQTT_5, Scene

PUBLISHERS: Final = 20
BATCH: Final = 50
BATCHES: Final = 40
AHEAD: Final = 2
SINGLE_PUBLISHERS: Final = 100
# Until sessions that end are gone.
SETTLE_SECONDS: Final = 0.5


class QosPlayer:
    """A broker with subscribers at one QoS; ``kept``: their sessions outlive connections."""

    def __init__(self, served: Served, *, near: bool = False, kept: bool = False) -> None:
        self.name = served.name
        self.served = served
        self.is_kept = kept
        self._is_near = near
        self._names = itertools.count()
        self._load: QosLoad | None = None
        self._publishers: list[Connection] = []
        self._scene = scenes.ONE_MATCH

    def subscribe(self, scene: Scene, qos: int) -> None:
        """Connect all clients and subscribe them."""
        self._scene = scene
        clients = [self._client(scene, number, qos) for number in range(scene.clients)]
        self._load = QosLoad(clients, scene.copies, self.served.pid)
        self._publishers = [self._connect("p") for _ in range(SINGLE_PUBLISHERS)]

    def leave(self) -> None:
        """Let all clients go, and their sessions end."""
        if self._load is not None and self.is_kept:
            for subscriber in self._load.subscribers.values():
                subscriber.settimeout(None)
                subscriber.sendall(scenes.LEAVE)
            time.sleep(SETTLE_SECONDS)
        if self._load is not None:
            self._load.close()
        for client in self._publishers:
            client.socket.close()
        self._load, self._publishers = None, []

    def stream(self, qos: int, seconds: float) -> Rate:
        """Publish in batches, as fast as they are acknowledged."""
        batches = self._batches(BATCH, qos)
        return self._running().acknowledged(
            self._publishers[:PUBLISHERS], batches, qos, AHEAD, seconds
        )

    def fan_out(self, qos: int, seconds: float) -> Rate:
        """Do so with no more under way than may be in flight to one client."""
        batches = self._batches(BATCH, qos)
        return self._running().acknowledged(self._publishers[:PUBLISHERS], batches, qos, 1, seconds)

    def singles(self, qos: int, seconds: float) -> Rate:
        """Publish one message a packet, each once the one before is acknowledged."""
        return self._running().acknowledged(
            self._publishers, self._batches(1, qos), qos, 1, seconds
        )

    def _running(self) -> QosLoad:
        if self._load is None:
            raise LoadError(f"{self.name} has no subscribers")
        return self._load

    def _batches(self, size: int, qos: int) -> Batches:
        published = self._scene.published()[: BATCH * BATCHES]
        numbers = itertools.cycle(range(1, (AHEAD + 1) * size + 1))
        packets = [
            self._publish(*one, packet_id, qos)
            for one, packet_id in zip(published, numbers, strict=False)
        ]
        starts = range(0, len(packets) - size + 1, size)
        return [packets[start : start + size] for start in starts]

    def _connect(self, kind: str, *, kept: bool = False) -> Connection:
        name = f"{kind}{next(self._names)}"
        return Connection(self.served.port, name, MQTT_5, kept=kept)

    def _client(self, scene: Scene, number: int, qos: int) -> Connection:
        client = self._connect("c", kept=self.is_kept)
        held = scene.neighborhoods_of(number)
        if not self._is_near:
            client.subscribe([f"{scene.topic}/{one:03}" for one in held], qos)
            return client
        for nsid, neighborhood in enumerate(held, scenes.FIRST_NSID):
            client.subscribe(
                [scene.topic], qos,
                scenes.user_property("neighborhood", scenes.descriptor_of(neighborhood)),
                scenes.user_property("nsid", str(nsid)),
            )  # fmt: skip
        return client

    def _publish(self, peid: int, neighborhood: int, packet_id: int, qos: int) -> bytes:
        topic = self._scene.topic
        if self._is_near:
            about = scenes.user_property("peid", str(peid))
            return scenes.publish(topic, MQTT_5, about, packet_id=packet_id, qos=qos)
        return scenes.publish(f"{topic}/{neighborhood:03}", MQTT_5, packet_id=packet_id, qos=qos)
