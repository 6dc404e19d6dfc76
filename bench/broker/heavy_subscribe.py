"""Latency of a running stream while heavy neighborhoods are resolved and entered.

``python -m bench.broker.heavy_subscribe``: one client publishes to itself at a steady rate, another
subscribes to one neighborhood of about 100,000 members after the other and gives each back.
Quiet and heavy phases alternate; the rise is the p99 of the heavy ones less that of the quiet.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import mqtt5
import numpy as np

from bench.live.world import write_city
from spaps.demo.broker_process import demo_broker
from world.snapshot import load_snapshot

PHASES = ("quiet", "heavy") * 3
KEEP_ALIVE = 60


class Link:
    """A client on a plain socket; ``read`` gives the packets that are there."""

    def __init__(self, port: int, client_id: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.send(mqtt5.ConnectPacket(client_id, keep_alive=KEEP_ALIVE))
        self.wait_for(mqtt5.ConnAckPacket)

    def send(self, packet: mqtt5.Packet) -> None:
        """Send one packet."""
        self.socket.sendall(packet.write())

    def read(self) -> list[mqtt5.Packet]:
        """Wait for some bytes and return the packets that have come."""
        self._rest += self.socket.recv(65_536)
        found = []
        view = memoryview(self._rest)
        while view:
            try:
                packet, size = mqtt5.read(view)
            except IndexError:  # the rest has not come yet
                break
            found.append(packet)
            view = view[size:]
        self._rest = bytes(view)
        return found

    def wait_for(self, kind: type) -> mqtt5.Packet:
        """Return the next packet of a kind; others are left aside."""
        while True:
            for packet in self.read():
                if isinstance(packet, kind):
                    return packet


def stream(link: Link, seconds: float, rate: float) -> list[float]:
    """Publish at the rate to ourselves; how long each message took."""
    took: list[float] = []
    start = time.perf_counter()
    sent = 0
    while len(took) < sent or time.perf_counter() < start + seconds:
        now = time.perf_counter()
        due = start + sent / rate
        if now >= due and now < start + seconds:
            sent += 1
            # The time it was due: a message that is sent late because of a stall counts too.
            link.send(mqtt5.PublishPacket("stream", repr(due).encode()))
            continue
        wait = max(0.0, due - now)
        if select.select([link.socket], [], [], wait)[0]:
            now = time.perf_counter()
            took += [
                now - float(packet.payload)
                for packet in link.read()
                if isinstance(packet, mqtt5.PublishPacket)
            ]
    return took


class HeavySubscriber(threading.Thread):
    """Subscribes to one large neighborhood after the other until it is stopped."""

    def __init__(self, link: Link, descriptors: Callable[[], str]) -> None:
        super().__init__()
        self._link = link
        self._descriptors = descriptors
        self.ended = threading.Event()
        self.seconds: list[float] = []

    def run(self) -> None:
        """Subscribe, wait for the answer, give it back."""
        number = 0
        while not self.ended.is_set():
            number = number % 1_000 + 1
            asked = mqtt5.TopicFilter("heavy/#")
            near = [("neighborhood", self._descriptors()), ("nsid", str(number))]
            start = time.perf_counter()
            self._link.send(mqtt5.SubscribePacket(number, [asked], user_properties=near))
            answer = self._link.wait_for(mqtt5.SubAckPacket)
            assert int(answer.reason_codes[0]) < 0x80, answer  # type: ignore[attr-defined]
            self.seconds.append(time.perf_counter() - start)
            given_back = [("nsid", str(number))]
            self._link.send(
                mqtt5.UnsubscribePacket(number, ["heavy/#"], user_properties=given_back)
            )
            self._link.wait_for(mqtt5.UnsubAckPacket)


def measure(entities: int, seconds: float, rate: float) -> dict[str, object]:
    """Alternate the phases on a new broker; return the figures of both kinds."""
    took: dict[str, list[float]] = {phase: [] for phase in PHASES}
    subscribed: list[float] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        write_city(folder, entities)
        references = iter(load_snapshot(folder).peids.tolist())
        port, _ = stack.enter_context(demo_broker(folder))
        publisher, subscriber = Link(port, "stream"), Link(port, "heavy")
        asked = mqtt5.TopicFilter("stream")
        publisher.send(mqtt5.SubscribePacket(1, [asked]))
        publisher.wait_for(mqtt5.SubAckPacket)
        # The resolver prepares itself for some seconds after its start.
        time.sleep(5)
        stream(publisher, 2, rate)

        def descriptor() -> str:
            """Return a neighborhood of all entities apart from one, another one each time."""
            stages = [{"cats": ["#"], "cond": "D"}]
            return json.dumps({"refs": [next(references)], "stages": stages})

        for phase in PHASES:
            heavy = HeavySubscriber(subscriber, descriptor)
            if phase == "heavy":
                heavy.start()
            took[phase] += stream(publisher, seconds, rate)
            if phase == "heavy":
                heavy.ended.set()
                heavy.join()
                subscribed += heavy.seconds
    result: dict[str, object] = {
        phase: {
            "messages": len(values),
            "median_ms": round(float(np.median(values)) * 1e3, 3),
            "p99_ms": round(float(np.quantile(values, 0.99)) * 1e3, 3),
            "max_ms": round(max(values) * 1e3, 3),
        }
        for phase, values in took.items()
    }
    rise = np.quantile(took["heavy"], 0.99) - np.quantile(took["quiet"], 0.99)
    result["p99_rise_ms"] = round(float(rise) * 1e3, 3)
    result["neighborhoods"] = len(subscribed)
    result["members"] = entities
    result["subscribe_median_ms"] = round(float(np.median(subscribed)) * 1e3, 1)
    return result


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--entities", type=int, default=99_000)
    arguments.add_argument("--seconds", type=float, default=8.0)
    arguments.add_argument("--rate", type=float, default=500.0)
    given = arguments.parse_args()
    print(json.dumps(measure(given.entities, given.seconds, given.rate), indent=1))


if __name__ == "__main__":
    main()
