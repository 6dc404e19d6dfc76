"""Micro-benchmark of the broker's core, without sockets: microseconds for each PUBLISH.

    python bench/broker/core.py [--publishes 1000] [--rounds 40]

Bytes are fed into the core as they would come from a socket, a chunk of many PUBLISH packets
or one packet at a time, and the output of every receiver is joined as the shell would do
before writing. Times are CPU time of this process, the best half of the rounds, so that other
work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import mqtt5
import numpy as np

from broker.codec.gateway_rules import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core.broker_core import Core
from broker.core.requests import Authenticate, Forget, Resolution, Resolve
from broker.core.sessions.connection import Connection
from broker.filter.memberships_memory import MemoryMemberships

TOPIC = "sensor/temperature"
PAYLOAD = b"x" * 32
NEIGHBORHOODS, MEMBERS, CLIENTS = 1_000, 2_000, 100
CONNECT_3_1_1 = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01p"


class Bench:
    """A core with everything answered at once."""

    def __init__(self) -> None:
        self.core = Core(
            clock=time.monotonic,
            memberships=MemoryMemberships(),
            gateway=GatewayRules(["at/{peid}"]),
            sys_interval=0,
        )
        self.members: list[np.ndarray] = []
        self._sub_ids = 0

    def settle(self) -> int:
        """Answer requests and take all output; return the number of bytes."""
        outbox, written = self.core.outbox, 0
        while outbox.requests or outbox.writes:
            requests, outbox.requests[:] = list(outbox.requests), []
            for request in requests:
                self._answer(request)
            for connection in outbox.writes:
                written += len(self.core.output_of(connection))
            outbox.writes.clear()
        outbox.unblocked.clear()
        # What was put off for other clients' sake goes on at once: there are no others.
        deadline = self.core.next_deadline()
        if deadline is not None and deadline <= time.monotonic():
            self.core.tick()
            return written + self.settle()
        return written

    def _answer(self, request: object) -> None:
        match request:
            case Authenticate():
                request.answer(ReasonCode.SUCCESS, None, None)
            case Resolve():
                self._sub_ids += 1
                peids = self.members[self._sub_ids - 1]
                request.answer(Resolution((self._sub_ids,), peids))
            case Forget():
                pass

    def connect(self, client_id: str, packet: bytes = b"") -> Connection:
        """Return a connected client; of MQTT 5 unless ``packet`` is another CONNECT."""
        connection = self.core.open()
        packet = packet or mqtt5.ConnectPacket(client_id, clean_start=True).write()
        self.core.receive(connection, packet)
        self.settle()
        return connection

    def subscribe(self, connection: Connection, pattern: str, qos: int, *, near: bool) -> None:
        """Subscribe once, with the next neighborhood if ``near``."""
        properties = [("neighborhood", "{}")] if near else []
        packet = mqtt5.SubscribePacket(
            1,
            [mqtt5.TopicFilter(pattern, max_qos=mqtt5.QoS(qos))],
            user_properties=properties,
        )
        self.core.receive(connection, packet.write())
        self.settle()


def publish(topic: str, peid: int | None, qos: int = 0, packet_id: int | None = None) -> bytes:
    """Return a PUBLISH packet."""
    properties = [] if peid is None else [("peid", str(peid))]
    return mqtt5.PublishPacket(
        topic, PAYLOAD, qos=mqtt5.QoS(qos), packet_id=packet_id, user_properties=properties
    ).write()


Case = Callable[[np.random.Generator, int], tuple[Bench, Connection, list[bytes]]]


def topic_only(rng: np.random.Generator, count: int) -> tuple[Bench, Connection, list[bytes]]:
    """Make case (a): one plain subscriber for each topic."""
    bench = Bench()
    for number in range(CLIENTS):
        client = bench.connect(f"c{number}")
        for topic in range(10):
            bench.subscribe(client, f"{TOPIC}/{number * 10 + topic}", 0, near=False)
    topics = rng.integers(0, NEIGHBORHOODS, count).tolist()
    return bench, bench.connect("p"), [publish(f"{TOPIC}/{topic}", None) for topic in topics]


def near_filter(pattern: str, rng: np.random.Generator) -> tuple[Bench, np.ndarray]:
    """Return a core with 1,000 neighborhoods of 2,000 peids under one filter, and all peids."""
    bench = Bench()
    peids = rng.choice(1 << 32, NEIGHBORHOODS * MEMBERS, replace=False)
    bench.members = [np.sort(part) for part in np.split(peids, NEIGHBORHOODS)]
    for number in range(CLIENTS):
        client = bench.connect(f"c{number}")
        for _ in range(10):
            bench.subscribe(client, pattern, 0, near=True)
    return bench, peids


def neighborhoods(rng: np.random.Generator, count: int) -> tuple[Bench, Connection, list[bytes]]:
    """Make case (b): one match a message."""
    bench, peids = near_filter("sensor/#", rng)
    chosen = rng.choice(peids, count).tolist()
    return bench, bench.connect("p"), [publish(TOPIC, peid) for peid in chosen]


def devices(rng: np.random.Generator, count: int) -> tuple[Bench, Connection, list[bytes]]:
    """Make case (d): as (b), but MQTT 3.1.1 publishes, and the topic names the entity."""
    bench, peids = near_filter("at/#", rng)
    chosen = rng.choice(peids, count).tolist()
    # The payload begins with an empty property section, so that mqtt5 can read the packets too.
    packets = [publish(f"at/{peid}", None) for peid in chosen]
    return bench, bench.connect("p", CONNECT_3_1_1), packets


def fan_out(
    qos: int,
) -> Callable[[np.random.Generator, int], tuple[Bench, Connection, list[bytes]]]:
    """Make the case of ten plain subscribers for every message."""

    def make(_rng: np.random.Generator, count: int) -> tuple[Bench, Connection, list[bytes]]:
        bench = Bench()
        for number in range(10):
            bench.subscribe(bench.connect(f"c{number}"), TOPIC, qos, near=False)
        packets = [publish(TOPIC, None, qos, i % 60_000 + 1 if qos else None) for i in range(count)]
        return bench, bench.connect("p"), packets

    return make


def acknowledge(bench: Bench) -> None:
    """Send PUBACK for everything in flight, so that the next round starts afresh."""
    for session in bench.core.sessions:
        if session.connection is not None:
            acks = [b"\x40\x02" + pid.to_bytes(2, "big") for pid in session.outgoing.identified]
            bench.core.receive(session.connection, b"".join(acks))
    bench.settle()


def measure(
    bench: Bench, publisher: Connection, packets: list[bytes], rounds: int, *, stream: bool
) -> float:
    """Return the microseconds for each PUBLISH."""
    chunks = [b"".join(packets)] if stream else packets
    times = []
    for _ in range(rounds):
        began = time.process_time()
        for chunk in chunks:
            bench.core.receive(publisher, chunk)
            bench.settle()
        times.append(time.process_time() - began)
        acknowledge(bench)
    best = sorted(times)[: max(1, rounds // 2)]
    return statistics.fmean(best) / len(packets) * 1e6


def reference(packets: list[bytes], rounds: int) -> float:
    """Return the microseconds to read a PUBLISH by ``mqtt5``: the speed of this machine."""
    views = [memoryview(packet) for packet in packets]
    times = []
    for _ in range(rounds):
        began = time.process_time()
        for view in views:
            mqtt5.read(view)
        times.append(time.process_time() - began)
    best = sorted(times)[: max(1, rounds // 2)]
    return statistics.fmean(best) / len(packets) * 1e6


CASES = {
    "a topic only": topic_only,
    "b neighborhood": neighborhoods,
    "c fan-out 10": fan_out(0),
    "c fan-out 10, QoS 1": fan_out(1),
    "d MQTT 3.1.1": devices,
}


def main() -> None:
    """Print the figures of every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--publishes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--case", default="", help="only cases that begin so")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for name, make in CASES.items():
        if not name.startswith(options.case):
            continue
        rng = np.random.default_rng(1)
        # Not more than the receive maximum in one chunk.
        bench, publisher, packets = make(rng, min(options.publishes, 1_000))
        measure(bench, publisher, packets, 2, stream=True)
        figures[name] = {
            "stream_us": round(measure(bench, publisher, packets, options.rounds, stream=True), 2),
            "single_us": round(measure(bench, publisher, packets, options.rounds, stream=False), 2),
        }
        figures[name]["mqtt5_read_us"] = round(reference(packets, options.rounds), 2)
        print(f"{name:24} {figures[name]}", flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
