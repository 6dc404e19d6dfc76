"""Latency at fixed rates and QoS 1 beside Mosquitto, from when a message was due to its arrival.

Bursts are due each millisecond, at times that nothing delays, and each message carries the time at
which it was due: one that waits because the broker is slow counts with all of its delay.
"""

from __future__ import annotations

import select
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.broker import scene as scenes
from bench.broker.aims import Latency
from bench.broker.connection import PATIENCE, Connection, LoadError
from bench.broker.load import BUFFER
from bench.broker.peers import Served, mosquitto, ours
from bench.broker.report import BrokerReport
from bench.broker.scene import MQTT_5

BROKER_CORE: Final = 0
RATES: Final = (1_000, 10_000, 50_000)
CLIENTS: Final = 100
PUBLISHERS: Final = 20
TICK: Final = 1_000_000
STAMP: Final = 8
WARM_SECONDS: Final = 0.5
PUBACK: Final = b"\x40\x02"


@dataclass
class Sender:
    """A publisher and its packets, whose identifiers come again after all others."""

    connection: Connection
    packets: NDArray[np.uint8]
    turn: int = 0

    def send(self, count: int, due: int) -> None:
        """Send the next ``count`` packets, which were due at a time."""
        places = (self.turn + np.arange(count)) % len(self.packets)
        self.turn += count
        rows = self.packets[places]
        rows[:, -STAMP:] = np.frombuffer(due.to_bytes(STAMP, "little"), np.uint8)
        self.connection.socket.sendall(rows.tobytes())


class FixedRate:
    """Publishers and subscribers of one broker at QoS 1, each subscriber with its own topic."""

    def __init__(self, served: Served) -> None:
        self.name = served.name
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        for number in range(CLIENTS):
            client = Connection(served.port, f"c{number}", MQTT_5)
            client.subscribe([_topic(number)], 1)
            self._add(client)
        self._subscribers = set(self._sockets)
        packets = [
            scenes.publish(_topic(number % CLIENTS), MQTT_5, packet_id=number + 1)
            for number in range(CLIENTS * 10)
        ]
        self._size = len(packets[0])
        self._identifier_at = 2 + 2 + len(_topic(0))
        matrix = np.frombuffer(b"".join(packets), np.uint8).reshape(-1, self._size)
        self._senders: list[Sender] = []
        for number in range(PUBLISHERS):
            sender = Connection(served.port, f"p{number}", MQTT_5)
            self._add(sender)
            self._senders.append(Sender(sender, matrix.copy(), number * 5))

    def _add(self, client: Connection) -> None:
        self._sockets[client.socket.fileno()] = client.socket
        self._poll.register(client.socket.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for one in self._sockets.values():
            one.close()

    def run(self, rate: int, seconds: float) -> NDArray[np.float64]:
        """Return the milliseconds of each message, without those of the first half second."""
        start = time.monotonic_ns() + TICK
        end = start + int((WARM_SECONDS + seconds) * 1e9)
        burst = sent = received = turn = 0
        rests: dict[int, bytes] = {}
        found: list[NDArray[np.int64]] = []
        last = time.monotonic()
        while True:
            due = start + burst * TICK
            now = time.monotonic_ns()
            if due < end and now >= due:
                count = int((burst + 1) * rate * TICK / 1e9) - sent
                # A burst is spread over as many publishers as it has messages.
                for part in _shares(count, PUBLISHERS):
                    self._senders[turn % PUBLISHERS].send(part, due)
                    turn += 1
                sent += count
                burst += 1
                continue
            if due >= end and received >= sent:
                break
            if time.monotonic() - last > PATIENCE:
                raise LoadError(f"{sent - received} messages were lost")
            wait = 0.1 if due >= end else max(0.0, (due - now) / 1e9)
            for file, _ in self._poll.poll(wait):
                data = self._sockets[file].recv(BUFFER)
                if file in self._subscribers:
                    received += self._arrived(file, data, rests, found)
                    last = time.monotonic()
        times = np.concatenate(found, axis=1)
        counted = times[:, times[0] >= start + int(WARM_SECONDS * 1e9)]
        return np.asarray((counted[1] - counted[0]) / 1e6)

    def _arrived(
        self, file: int, data: bytes, rests: dict[int, bytes], found: list[NDArray[np.int64]]
    ) -> int:
        """Note when messages arrived, and acknowledge them."""
        now = time.monotonic_ns()
        data = rests.pop(file, b"") + data
        size = self._size
        whole = len(data) // size
        if whole * size < len(data):
            rests[file] = data[whole * size :]
        if not whole:
            return 0
        rows = np.frombuffer(data, np.uint8, whole * size).reshape(-1, size)
        stamps = np.ascontiguousarray(rows[:, -STAMP:]).view("<i8").ravel().astype(np.int64)
        found.append(np.stack((stamps, np.full(whole, now))))
        places = range(self._identifier_at, whole * size, size)
        self._sockets[file].sendall(b"".join([PUBACK + data[at : at + 2] for at in places]))
        return whole


def _topic(number: int) -> str:
    return f"sensor/temperature/{number:03}"


def _shares(count: int, most: int) -> Sequence[int]:
    parts = min(count, most)
    return [count * (n + 1) // parts - count * n // parts for n in range(parts)]


def latencies(report: BrokerReport, seconds: float) -> None:
    """Measure each rate, the brokers in turn, three times."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spaps-bench-")))
        peer = stack.enter_context(mosquitto(BROKER_CORE, folder))
        report.versions = peer.version
        none = stack.enter_context(ours("none", BROKER_CORE, folder / "none.log"))
        brokers = [FixedRate(peer), FixedRate(none)]
        for rate in RATES:
            for _ in range(3):
                for broker in brokers:
                    took = broker.run(rate, seconds)
                    median, p99 = np.percentile(took, (50, 99))
                    report.add_latency(Latency(rate, broker.name, float(median), float(p99)))
                    line = f"{rate:,} a second: {broker.name} {median:.2f} ms, p99 {p99:.2f} ms"
                    print(line, file=sys.stderr, flush=True)
        for broker in brokers:
            broker.close()
