"""10,000 connected clients beside Mosquitto: memory, time to connect, a stream through all of them.

    python -m bench.broker.qos.many_clients [--clients 10000] [--rate 10000] [--seconds 10]

Clients come from several addresses of the loopback network, as many as quotas want. Each
subscribes to a topic of its own at QoS 1. Then messages go to all of them in turn at a fixed rate.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.broker import scene as scenes
from bench.broker.connection import PATIENCE, Connection, LoadError
from bench.broker.peers import PeerMissingError, Served, mosquitto, ours
from bench.broker.scene import MQTT_5
from bench.memory_watch import MemoryWatch

BROKER_CORE, LOAD_CORE = 0, 1
CLIENTS_OF_ADDRESS: Final = 500
# Clients that connect at the same time.
AT_ONCE: Final = 200
WARM: Final = 100
PUBLISHERS: Final = 20
TICK_SECONDS: Final = 0.001
PUBACK: Final = b"\x40\x02"


def _topic(number: int) -> str:
    return f"device/{number:05}/state"


class Crowd:
    """Connected clients, each with its own topic."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._poll = select.epoll()
        self.sockets: dict[int, socket.socket] = {}

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for one in self.sockets.values():
            one.close()

    def connect(self, numbers: range) -> float:
        """Connect and subscribe clients, many at a time; return the seconds."""
        began = time.monotonic()
        for start in numbers[::AT_ONCE]:
            part = range(start, min(start + AT_ONCE, numbers.stop))
            opened = [self._open(number) for number in part]
            for connected in opened:
                _read_packet(connected)  # CONNACK
                _read_packet(connected)  # SUBACK
                connected.setblocking(False)  # noqa: FBT003 - its only parameter
                self.sockets[connected.fileno()] = connected
                self._poll.register(connected.fileno(), select.EPOLLIN)
        return time.monotonic() - began

    def _open(self, number: int) -> socket.socket:
        """Open one connection and send CONNECT and SUBSCRIBE, without waiting for the answers."""
        address = f"127.0.0.{number // CLIENTS_OF_ADDRESS + 2}"
        connected = socket.create_connection(("127.0.0.1", self._port), PATIENCE, (address, 0))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connect = scenes.connect(f"device-{number}", MQTT_5)
        connected.sendall(connect + scenes.subscribe([_topic(number)], MQTT_5, 1))
        return connected

    def stream(self, rate: int, seconds: float) -> tuple[int, int]:
        """Publish to all clients in turn; return the messages sent and received."""
        senders = [Connection(self._port, f"p{n}", MQTT_5) for n in range(PUBLISHERS)]
        for sender in senders:
            self._poll.register(sender.socket.fileno(), select.EPOLLIN)
        publishers = {one.socket.fileno(): one.socket for one in senders}
        count = len(self.sockets)
        packets = [
            scenes.publish(_topic(number % count), MQTT_5, packet_id=number % 60_000 + 1)
            for number in range(count)
        ]
        size, identifier_at = len(packets[0]), 4 + len(_topic(0))
        total = int(rate * seconds)
        sent = received = 0
        rests: dict[int, bytes] = {}
        start = last = time.monotonic()
        while sent < total or received < sent:
            now = time.monotonic()
            due = min(total, int((now - start) * rate))
            for turn, sender in enumerate(senders):
                part = [packets[n % count] for n in range(sent + turn, due, PUBLISHERS)]
                if part:
                    sender.socket.sendall(b"".join(part))
            sent = max(sent, due)
            if now - last > PATIENCE / 6:
                break
            for file, _ in self._poll.poll(TICK_SECONDS):
                if file in publishers:
                    publishers[file].recv(1 << 16)
                    continue
                data = rests.pop(file, b"") + self.sockets[file].recv(1 << 16)
                whole = len(data) // size
                if whole * size < len(data):
                    rests[file] = data[whole * size :]
                places = range(identifier_at, whole * size, size)
                self.sockets[file].sendall(b"".join([PUBACK + data[at : at + 2] for at in places]))
                received += whole
                last = now
        for sender in senders:
            self._poll.unregister(sender.socket.fileno())
            sender.socket.close()
        return sent, received


def _read_packet(connected: socket.socket) -> None:
    """Read one short packet."""
    head = _read(connected, 2)
    _read(connected, head[1])


def _read(connected: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connected.recv(size - len(data))
        if not piece:
            raise LoadError("the broker closed a connection")
        data += piece
    return data


def measure(served: Served, clients: int, rate: int, seconds: float) -> str:
    """Return the row of a broker."""
    crowd = Crowd(served.port)
    with MemoryWatch(served.pid) as watch:
        crowd.connect(range(WARM))
        before = watch.settled()
        took = crowd.connect(range(WARM, clients))
        after = watch.settled()
        sent, received = crowd.stream(rate, seconds)
        during = watch.settled()
    crowd.close()
    each = (after - before) * 1e6 / (clients - WARM)
    return (
        f"| {served.name} | {len(crowd.sockets):,} | {took:.1f} | {each:,.0f} | {during:,.0f} "
        f"| {sent:,} | {sent - received:,} |"
    )


def main() -> int:
    """Print the table; 2 when Mosquitto is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=10_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    # The defaults leave no room for the publishers beside 10,000 clients.
    os.environ["SPAPS_BROKER_LIMITS_CONNECTIONS"] = str(options.clients + PUBLISHERS + WARM)
    print(
        "| broker | clients | seconds to connect all | bytes for each connection "
        "| MB after the stream | messages sent | lost |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    try:
        with tempfile.TemporaryDirectory(prefix="spaps-bench-") as name:
            folder = Path(name)
            brokers = (
                mosquitto(BROKER_CORE, folder),
                ours("none", BROKER_CORE, folder / "none.log"),
            )
            for broker in brokers:
                with broker as served:
                    row = measure(served, options.clients, options.rate, options.seconds)
                    print(row, flush=True)
    except (PeerMissingError, LoadError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
