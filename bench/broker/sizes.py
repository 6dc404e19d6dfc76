"""What a session, a subscription, a pair and a message need in a broker and its Redis.

    python -m bench.broker.sizes [--count 20000]     (make bench-sizes)

For each kind a broker with Redis is filled. The figures are the growth of its resident memory and
of Redis' ``used_memory``, divided by the number; the first few are not counted.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.broker import scene
from bench.broker.connection import Connection, LoadError
from bench.broker.peers import ours
from bench.memory_watch import MemoryWatch
from redis_link.connection.client import RedisClient, connect
from redis_link.connection.embedded import EmbeddedRedis

CONNACK, PUBACK, UNUSED = 0x20, 0x40, 0
PAYLOAD: Final = bytes(100)
RETAINED, QOS_1 = 0x01, 0x02
SUBSCRIPTIONS_OF_SESSION: Final = 100
NEIGHBORHOODS_OF_SESSION: Final = 50
WARM: Final = 100


class Client(Connection):
    """A client of MQTT 5 with a session that is stored, unless it is to be ``plain``."""

    def __init__(self, port: int, client_id: str, *, plain: bool = False) -> None:
        self._plain = plain
        super().__init__(port, client_id, scene.MQTT_5)

    def ask(self, request: bytes, answer: int) -> bytes:
        """Send a packet and wait for its answer; the CONNECT asks for a session."""
        if answer == CONNACK and not self._plain:
            head = scene.text("MQTT") + bytes([scene.MQTT_5, 0, 0, 0])
            name = request[request.index(b"\x00\x00\x00", 8) + 3 :]
            request = scene.packet(
                scene.CONNECT, head, scene.section(scene.MQTT_5, scene.EXPIRY), name
            )
        body = super().ask(request, answer)
        if answer == CONNACK and body[1]:
            raise LoadError(f"a client was refused: {body[1]:#x}")
        return body

    def publish(self, topic: str, flags: int) -> None:
        """Publish at QoS 1 and wait until it is acknowledged."""
        parts = scene.text(topic), b"\x00\x01", scene.section(scene.MQTT_5), PAYLOAD
        self.ask(scene.packet(scene.PUBLISH | QOS_1 | flags, *parts), PUBACK)

    def leave(self) -> None:
        """Close the connection; the session stays."""
        self.socket.sendall(b"\xe0\x00")
        self.socket.close()


class Filler:
    """Fills a broker with things of one kind, numbered."""

    def __init__(self, port: int, still_open: ExitStack) -> None:
        self._port = port
        self._still_open = still_open

    def connections(self, numbers: range) -> None:
        """Connect clients whose sessions end with them."""
        for number in numbers:
            client = Client(self._port, f"connected-{number}", plain=True)
            self._still_open.callback(client.socket.close)

    def sessions(self, numbers: range) -> None:
        """Leave sessions behind."""
        for number in numbers:
            Client(self._port, f"session-{number}").leave()

    def subscriptions(self, numbers: range) -> None:
        """Make plain subscriptions, with their sessions."""
        for first in numbers[::SUBSCRIPTIONS_OF_SESSION]:
            client = Client(self._port, f"subscriber-{first}")
            topics = [f"room/{first + n}/temperature" for n in range(SUBSCRIPTIONS_OF_SESSION)]
            client.subscribe(topics, 1)
            client.leave()

    def neighborhoods(self, numbers: range) -> None:
        """Make subscriptions with neighborhoods of many members."""
        for first in numbers[::NEIGHBORHOODS_OF_SESSION]:
            client = Client(self._port, f"near-{first}")
            for number in range(first, first + NEIGHBORHOODS_OF_SESSION):
                descriptor = scene.user_property("neighborhood", scene.descriptor_of(number))
                client.subscribe([f"near/{number}"], 1, descriptor)
            client.leave()

    def retained(self, numbers: range) -> None:
        """Publish retained messages, each with a topic of its own."""
        client = Client(self._port, "retains", plain=True)
        for number in numbers:
            client.publish(f"kept/room/{number}/temperature", RETAINED)
        client.leave()

    def queued(self, numbers: range) -> None:
        """Publish messages for a client that is away."""
        if numbers.start == 0:  # the session stays: a client that came back would get its messages
            reader = Client(self._port, "reads later")
            reader.subscribe(["queued/#"], 1)
            reader.leave()
        client = Client(self._port, "writes", plain=True)
        for number in numbers:
            client.publish(f"queued/{number % 10}", UNUSED)
        client.leave()


@dataclass(frozen=True)
class Kind:
    """What is measured; ``share`` of the count is made, each of which counts ``times``."""

    name: str
    fill: Callable[[Filler, range], None]
    share: float = 1.0
    times: int = 1


KINDS: Final = (
    Kind("connected client", Filler.connections, 0.1),
    Kind("stored session, its client away", Filler.sessions, 0.1),
    Kind("plain subscription", Filler.subscriptions),
    Kind("pair of a neighborhood", Filler.neighborhoods, 0.025, scene.MEMBERS),
    Kind("retained message of 100 bytes", Filler.retained),
    Kind("queued message of 100 bytes", Filler.queued, 0.45),
)


def memory(redis: RedisClient, watch: MemoryWatch, settle: float) -> tuple[float, float]:
    """Return the bytes of broker and Redis after a pause."""
    time.sleep(settle)
    return watch.settled() * 1e6, float(redis.info("memory")["used_memory"])


def measure(kind: Kind, folder: Path, options: argparse.Namespace) -> str:
    """Return the row of one kind; brokers in the same folder have the same world."""
    count = max(NEIGHBORHOODS_OF_SESSION, int(options.count * kind.share))
    with (
        EmbeddedRedis(folder / kind.fill.__name__) as server,
        connect(server.url) as redis,
        ours("memory", 0, folder / "broker.log", server.url) as served,
        MemoryWatch(served.pid) as watch,
        ExitStack() as still_open,
    ):
        filler = Filler(served.port, still_open)
        kind.fill(filler, range(WARM))
        before = memory(redis, watch, options.settle)
        kind.fill(filler, range(WARM, WARM + count))
        after = memory(redis, watch, options.settle)
    made = count * kind.times
    broker, in_redis = ((late - early) / made for early, late in zip(before, after, strict=True))
    return f"| {kind.name} | {made:,} | {broker:,.0f} | {in_redis:,.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    # Until what was freed is given back, and Redis has what was written.
    parser.add_argument("--settle", type=float, default=3.0, help="seconds before each reading")
    options = parser.parse_args()
    # All clients come from one address.
    os.environ["SPAPS_BROKER_LIMITS_SESSIONS_OF_ADDRESS"] = str(options.count + WARM)
    print("| one | measured with | bytes in the broker | bytes in Redis |")
    print("|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="spaps-sizes-") as folder:
        for kind in KINDS:
            print(measure(kind, Path(folder), options), flush=True)


if __name__ == "__main__":
    main()
