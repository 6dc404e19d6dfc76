"""The limits, taken together, bound the memory of a running broker (docs/operations.md)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.servers.raw_client import (
    PUBACK,
    PUBLISH,
    SUBACK,
    SUBSCRIBE,
    RawClient,
    packet,
    text,
    varint,
)
from tests.servers.running_broker import RunningBroker, running_broker, until

MEGABYTE = 1 << 20
# A tenth or less of the defaults, so that the attacks take a second each.
LIMITS = {
    "total_queued_bytes": 8 * MEGABYTE,
    "queued_bytes": MEGABYTE // 2,
    "total_subscription_bytes": 8 * MEGABYTE,
    "subscription_bytes": 2 * MEGABYTE,
    "retained_bytes": 4 * MEGABYTE,
    "cached_route_bytes": 4 * MEGABYTE,
    "input_bytes": 4 * MEGABYTE,
    "output_bytes": 8 * MEGABYTE,
    "connections": 300,
}
# What the table in docs/operations.md adds up to with these limits, and what the allocator and
# the largest single packets may add.
BOUND = 8 + 8 + 4 + 4 + 4 + 8 + 300 * 28_000 // MEGABYTE
SPARE = 24
CONFIG = "[broker]\nmemberships = 'none'\nallow_anonymous = true\n[broker.limits]\n" + "".join(
    f"{name} = {value}\n" for name, value in LIMITS.items()
)
EXPIRY = b"\x11\x00\x00\x0e\x10"
QUOTA_EXCEEDED = 0x97


def resident(broker: RunningBroker, name: str = "VmHWM") -> int:
    """The most memory that the process has had so far, in megabytes."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) // 1024


def publish(
    topic: str, payload: bytes, qos: int = 0, *, retain: bool = False, properties: bytes = b""
) -> bytes:
    identifier = b"\x00\x01" if qos else b""
    first = PUBLISH | qos << 1 | retain
    return packet(first, text(topic), identifier, varint(len(properties)), properties, payload)


def filters(port: int) -> int:
    """Deep filters of several clients, until they are refused; how many were."""
    refused = 0
    for number in range(4):
        with RawClient(port) as client:
            client.connect(client_id=f"f{number}", clean=False, properties=EXPIRY)
            for part in range(4):
                names = (f"{number}/{part}/{one}" + "/a" * 150 for one in range(250))
                body = b"".join(text(name) + b"\x01" for name in names)
                client.send(packet(SUBSCRIBE, b"\x00\x01\x00", body))
                first, answer = client.read_packet()
                assert first == SUBACK
                refused += answer.count(QUOTA_EXCEEDED)
    return refused


def retained_topics(port: int) -> int:
    """Deep topics of retained messages; how many were refused."""
    refused = 0
    with RawClient(port) as client:
        client.connect(client_id="retainer")
        for number in range(1_000):
            client.send(publish(f"kept/{number}" + "/a" * 150, b"x" * 100, 1, retain=True))
            first, answer = client.read_packet()
            assert first == PUBACK
            refused += answer[2:3] == bytes((QUOTA_EXCEEDED,))
    return refused


def forgotten_deadlines(port: int) -> int:
    """Long topics that are retained for a year, and removed at once."""
    year = b"\x02" + (365 * 86_400).to_bytes(4, "big")
    with RawClient(port) as client:
        client.connect(client_id="forgetful")
        for number in range(1_500):
            topic = f"{number}" + "y" * 60_000
            client.send(publish(topic, b"x", retain=True, properties=year))
            client.send(publish(topic, b"", retain=True))
        client.ping()
    return 1


def long_topics(port: int) -> int:
    """Routes of long topics."""
    with RawClient(port) as client:
        client.connect(client_id="router")
        for number in range(400):
            client.send(publish(f"{number}" + "x" * 60_000, b""))
        client.ping()
    return 1


def queues(port: int) -> int:
    """Messages for sessions whose clients are away, by many overlapping filters each."""
    for number in range(10):
        with RawClient(port) as client:
            client.connect(client_id=f"q{number}", clean=False, properties=EXPIRY)
            patterns = [f"q{number}/" + "/".join(f"{one:06b}").replace("0", "+").replace("1", "a")
                        for one in range(64)]  # fmt: skip
            body = b"".join(text(name) + b"\x01" for name in patterns)
            client.send(packet(SUBSCRIBE, b"\x00\x01\x00", body))
            client.read_packet()
    with RawClient(port) as client:
        client.connect(client_id="writer")
        # One session after the other is full, and in the end all that one user may have.
        for number in range(10):
            for _ in range(20):
                client.send(publish(f"q{number}/a/a/a/a/a/a", b"x" * 50_000, 1))
                client.read_packet()
    return 1


def unfinished_packets(port: int) -> int:
    """Packets that are never finished."""
    clients = [RawClient(port) for _ in range(40)]
    closed = 0
    for number, client in enumerate(clients):
        client.connect(client_id=f"u{number}")
        try:
            client.send(b"\x30" + varint(900_000) + b"\x00" * 500_000)
        except OSError:
            closed += 1
    for client in clients:
        client.close()
    return 1


def aliases(port: int) -> int:
    """Topics of aliases."""
    with RawClient(port) as client:
        client.connect(client_id="aliases")
        try:
            for alias in range(1, 100):
                properties = b"\x23" + alias.to_bytes(2, "big")
                client.send(publish(f"{alias}" + "x" * 60_000, b"", properties=properties))
            client.ping()
        except (OSError, EOFError):
            return 1
    return 0


def wills(port: int) -> int:
    """Wills of clients that are away, each with a delay; how many were refused."""
    refused = 0
    for number in range(90):
        delay = b"\x18\x00\x00\x0e\x10"
        will = varint(len(delay)) + delay + text("will") + text(b"x" * 60_000)
        head = text("MQTT") + bytes((5, 0x04)) + b"\x00\x3c" + varint(len(EXPIRY)) + EXPIRY
        with RawClient(port) as client:
            client.send(packet(0x10, head, text(f"w{number}"), will))
            _, answer = client.read_packet()
            refused += answer[1] == QUOTA_EXCEEDED
    return refused


def idle_clients(port: int, name: str, count: int, pattern: str, qos: int = 0) -> list[RawClient]:
    """Clients that subscribe and read nothing but the answer."""
    clients = [RawClient(port, receive_buffer=4_096) for _ in range(count)]
    for number, client in enumerate(clients):
        client.connect(client_id=f"{name}{number}")
        client.send(packet(SUBSCRIBE, b"\x00\x01\x00", text(pattern) + bytes((qos,))))
    return clients


def readers_that_do_not_read(port: int) -> int:
    """Clients that subscribe and never read: very many messages, and very large ones."""
    few = idle_clients(port, "r", 10, "stream")
    many = idle_clients(port, "l", 200, "large")
    aliased = [RawClient(port, receive_buffer=4_096) for _ in range(50)]
    for number, client in enumerate(aliased):
        # Each gets a packet of its own making: with aliases towards it.
        client.connect(client_id=f"a{number}", properties=b"\x22\x00\x0a")
        client.send(packet(SUBSCRIBE, b"\x00\x01\x00", text("large") + b"\x00"))
    with RawClient(port) as client:
        client.connect(client_id="streamer")
        client.ping()
        for _ in range(1_000):
            client.send(publish("stream", b"x" * 30_000))
        for _ in range(20):
            client.send(publish("large", b"x" * 1_000_000))
        # The broker looks for unread output several times a second.
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            client.ping()
    for one in (*few, *many, *aliased):
        one.close()
    return 1


def answers_that_are_not_read(port: int) -> int:
    """Clients that send on and read no answer, until nothing is read from them."""
    stopped, clients = 0, []
    for number in range(4):
        client = RawClient(port, receive_buffer=4_096)
        client.connect(client_id=f"p{number}")
        client.wait_at_most(0.5)
        try:
            for _ in range(500):
                client.send(b"\xc0\x00" * 10_000)
        except OSError:
            stopped += 1
        clients.append(client)
    for client in clients:
        client.close()
    return stopped


def retained_searches_that_wait(port: int) -> int:
    """Clients that ask for all retained messages again and again, and read none."""
    with RawClient(port) as client:
        client.connect(client_id="wide")
        for number in range(500):
            client.send(publish(f"wide/{number}", b"x" * 3_000, retain=True))
        client.ping()
    everything = packet(SUBSCRIBE, b"\x00\x01\x00", text("#") + b"\x00") * 20
    long_filter = packet(SUBSCRIBE, b"\x00\x01\x00", text("wide/+/" + "x" * 60_000) + b"\x00")
    clients = []
    for number in range(8):
        client = RawClient(port, receive_buffer=4_096)
        client.connect(client_id=f"s{number}")
        client.wait_at_most(0.5)
        clients.append(client)
        try:
            for _ in range(10):
                client.send(everything + long_filter)
        except OSError:
            continue
    for client in clients:
        client.close()
    return 1


ATTACKS: list[Callable[[int], int]] = [
    queues, wills, filters, retained_topics, forgotten_deadlines, long_topics, unfinished_packets,
    aliases, readers_that_do_not_read, answers_that_are_not_read, retained_searches_that_wait,
]  # fmt: skip


def test_all_limits_together_bound_the_memory(tmp_path: Path) -> None:
    """Every attack at its limit, one after the other, on one broker that keeps all of it."""
    with running_broker(tmp_path, "--http", "127.0.0.1:0", config=CONFIG) as broker:
        with RawClient(broker.port) as client:
            client.connect()
            client.ping()
        start = resident(broker)
        held = {}
        for attack in ATTACKS:
            assert attack(broker.port) > 0, f"{attack.__name__} reached no limit"
            held[attack.__name__] = resident(broker) - start
        until(lambda: broker.metric("spaps_connections") == 0, "all clients gone")
        assert held[ATTACKS[-1].__name__] <= BOUND + SPARE, held
        refusals = {
            name: broker.metric(f'spaps_refusals_total{{limit="{name}"}}')
            for name in (
                "subscription_bytes",
                "total_subscription_bytes",
                "input_bytes",
                "output_bytes",
                "wills",
            )
        }
        assert all(refusals.values()), refusals
        assert broker.metric("spaps_reading_stopped_total") > 0
        # Both are full as far as one user may fill them, and count what memory holds.
        for name in ("retained_bytes", "total_subscription_bytes"):
            metric = f"spaps_{name.removeprefix('total_')}"
            assert 0.45 * LIMITS[name] < broker.metric(metric) <= LIMITS[name], name
        for cause in ("queue_full", "total_queue_full", "slow_consumer"):
            assert broker.metric(f'spaps_drops_total{{cause="{cause}"}}') > 0, cause
