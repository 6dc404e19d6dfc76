"""Two clients of the switch benchmark: one that measures a stream, one that hears of switches."""

from __future__ import annotations

import json
import select
import threading
import time

import mqtt5

from bench.broker.heavy_subscribe import Link
from schemas.mqtt_names import WORLD_TOPIC


class Stream(threading.Thread):
    """Publishes to itself about one entity after the other, until told to stop."""

    def __init__(self, link: Link, peids: list[int], rate: float) -> None:
        super().__init__(daemon=True)
        self._link = link
        self._peids = peids
        self._rate = rate
        self.ended = threading.Event()
        # When each message was due, and how long after that it came.
        self.due: list[float] = []
        self.took: list[float] = []

    def run(self) -> None:
        """Send and receive in one thread, so that neither waits for the other."""
        start, sent = time.perf_counter(), 0
        while not self.ended.is_set() or len(self.took) < sent:
            now = time.perf_counter()
            due = start + sent / self._rate
            if now >= due and not self.ended.is_set():
                peid = str(self._peids[sent % len(self._peids)])
                sent += 1
                # The time it was due: a message that is sent late because of a stall counts too.
                about = [("peid", peid)]
                packet = mqtt5.PublishPacket("stream", repr(due).encode(), user_properties=about)
                self._link.send(packet)
            elif select.select([self._link.socket], [], [], max(0.0, min(due - now, 0.1)))[0]:
                packets = self._link.read()
                now = time.perf_counter()
                for packet in packets:
                    if isinstance(packet, mqtt5.PublishPacket) and packet.topic == "stream":
                        due = float(packet.payload)
                        self.due.append(due)
                        self.took.append(now - due)


class WorldWatch(threading.Thread):
    """Hears on which generation the broker is."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._link = Link(port, "watch")
        self._link.send(mqtt5.SubscribePacket(1, [mqtt5.TopicFilter(WORLD_TOPIC)]))
        self.generation: int | None = None
        self._news = threading.Condition()

    def run(self) -> None:
        """Follow the broker until it ends."""
        while True:
            try:
                packets = self._link.read()
            except OSError:
                return
            for packet in packets:
                if isinstance(packet, mqtt5.PublishPacket):
                    with self._news:
                        self.generation = json.loads(packet.payload)["generation"]
                        self._news.notify_all()

    def wait_for(self, generation: int) -> float:
        """Wait until that version is in force; return when that was."""
        with self._news:
            if not self._news.wait_for(lambda: self.generation == generation, 300):
                raise SystemExit(f"generation {generation} did not come into force")
            return time.perf_counter()
