"""What strangers and bad clients can do to the running broker: little, and nothing to others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.access.passwords import hash_password
from tests.servers.raw_client import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PUBLISH,
    SUBSCRIBE,
    RawClient,
    connect_packet,
    packet,
    publish_packet,
    subscribe_packet,
    text,
)
from tests.servers.running_broker import RunningBroker, running_broker, until

OPEN = ("--memberships", "none", "--allow-anonymous", "--http", "0")
EVERY_OTHER_TYPE = [number << 4 for number in range(16) if number != CONNECT >> 4]
# The longest remaining length that four bytes can say.
LONGEST = b"\xff\xff\xff\x7f"
MEGABYTE = 1_048_576
BAD_PASSWORD, NOT_AUTHORIZED = 0x86, 0x87
PACKET_TOO_LARGE, SLOW = 0x95, 'spaps_drops_total{cause="slow_consumer"}'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("hazards"), *OPEN) as running:
        yield running


def connected(broker: RunningBroker, client_id: str = "raw", **options: object) -> RawClient:
    client = RawClient(broker.port)
    assert client.connect(client_id=client_id, **options)[1] == 0
    return client


def is_alive(broker: RunningBroker) -> bool:
    """Whether a new client is served from CONNECT to delivery."""
    with connected(broker, "probe") as client:
        client.send(subscribe_packet("probe") + publish_packet("probe", b"echo"))
        while client.read_packet()[0] & 0xF0 != PUBLISH:
            pass
    return True


def memory(broker: RunningBroker) -> float:
    return broker.metric("process_resident_memory_bytes")


@pytest.mark.parametrize("first", EVERY_OTHER_TYPE)
def test_a_first_packet_that_is_no_connect(first: int, broker: RunningBroker) -> None:
    before = memory(broker)
    with RawClient(broker.port) as small, RawClient(broker.port) as large:
        small.send(bytes([first, 0]))
        large.send(bytes([first]) + LONGEST + b"x" * 1000)
        assert small.is_closed()
        assert large.is_closed()
    assert memory(broker) < before + 8 * MEGABYTE
    assert is_alive(broker)


def test_a_stranger_may_declare_little(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        # From the header alone: the body never comes.
        client.send(bytes([CONNECT]) + b"\x81\x80\x04")
        assert client.is_closed()
    with RawClient(broker.port) as client:
        client.send(bytes([CONNECT]) + LONGEST)
        assert client.is_closed()


def test_a_known_client_may_declare_a_megabyte(broker: RunningBroker) -> None:
    with connected(broker) as client:
        client.send(publish_packet("large", b"x" * (MEGABYTE - 20)))
        client.ping()
        client.send(publish_packet("large", b"x" * MEGABYTE)[:5])
        first, body = client.read_packet()
        assert (first, body[0]) == (DISCONNECT, PACKET_TOO_LARGE)
        assert client.is_closed()


@pytest.mark.parametrize(
    "whole",
    [
        connect_packet("cut", user="alice", password=b"secret", will=("w", b"x")),
        publish_packet("topic", b"payload", b"\x26" + text("peid") + text("17")),
        subscribe_packet("a/+/b"),
    ],
    ids=["CONNECT", "PUBLISH", "SUBSCRIBE"],
)
def test_packets_cut_at_every_byte(whole: bytes, broker: RunningBroker) -> None:
    for size in range(len(whole)):
        client = RawClient(broker.port) if whole[0] == CONNECT else connected(broker, f"c{size}")
        with client:
            client.send(whole[:size])
    assert is_alive(broker)


@pytest.mark.parametrize("wrong_by", [-1, 1])
@pytest.mark.parametrize(
    "whole",
    [connect_packet("off"), subscribe_packet("a/b"), publish_packet("t", b"", b"\x01\x01")],
    ids=["CONNECT", "SUBSCRIBE", "PUBLISH"],
)
def test_a_remaining_length_that_is_off_by_one(
    whole: bytes, wrong_by: int, broker: RunningBroker
) -> None:
    client = RawClient(broker.port) if whole[0] == CONNECT else connected(broker, "off")
    with client:
        # What follows is enough to complete a packet that claims one byte more.
        client.send(whole[:1] + bytes([whole[1] + wrong_by]) + whole[2:] + packet(0xC0) * 4)
        if whole[0] != PUBLISH or wrong_by < 0:
            assert client.is_closed()
    assert is_alive(broker)


def test_bytes_of_a_megabyte_one_by_one(broker: RunningBroker) -> None:
    """Small pieces cost no more than their bytes: this would take minutes otherwise."""
    with connected(broker, "drip") as client:
        client.send(subscribe_packet("drip"))
        whole = publish_packet("drip", b"x" * 60_000)
        for at in range(len(whole)):
            client.send(whole[at : at + 1])
        while True:
            first, body = client.read_packet()
            if first & 0xF0 == PUBLISH:
                break
        assert body.endswith(b"x" * 60_000)


def test_a_subscriber_that_stops_reading(broker: RunningBroker) -> None:
    """It costs bounded memory and loses QoS 0; the one beside it gets everything."""
    messages, payload = 30_000, b"x" * 1_000
    with ExitStack() as stack:
        slow = stack.enter_context(connected(broker, "slow"))
        quick = stack.enter_context(connected(broker, "quick"))
        sender = stack.enter_context(connected(broker, "sender"))
        for client in (slow, quick):
            client.send(subscribe_packet("flood"))
            client.read_packet()
        before = memory(broker)
        received = 0

        def read_all() -> None:
            nonlocal received
            while received < messages:
                quick.read_packet()
                received += 1

        reader = threading.Thread(target=read_all)
        reader.start()
        message = publish_packet("flood", payload)
        # Not faster than a client can read: otherwise the quick one would count as slow.
        for start in range(0, messages, 100):
            sender.send(message * 100)
            until(lambda start=start: received >= start - 200, "the quick reader")
        reader.join(60)
        assert received == messages
        assert broker.metric(SLOW) > messages / 2
        assert memory(broker) < before + 8 * MEGABYTE
        slow.close()
    assert is_alive(broker)


def test_no_connect_in_time_and_a_keep_alive_that_is_capped(tmp_path: Path) -> None:
    config = "[broker.limits]\nconnect_timeout = 3.0\nkeep_alive = 1\n"
    with (
        running_broker(tmp_path, *OPEN, config=config) as broker,
        RawClient(broker.port) as endless,
    ):
        # First: it must not be late itself, however busy the machine is.
        properties = endless.connect(client_id="endless", keep_alive=0)
        assert b"\x13\x00\x01" in properties, "Server Keep Alive"
        with RawClient(broker.port) as silent, RawClient(broker.port) as halting:
            halting.send(connect_packet()[:5])
            assert silent.is_closed()
            assert halting.is_closed()
        first, body = endless.read_packet()
        assert (first, body[0]) == (DISCONNECT, 0x8D)
        assert endless.is_closed()


def test_one_connection_over_the_limit(tmp_path: Path) -> None:
    config = "[broker.limits]\nconnections = 3\n"
    with running_broker(tmp_path, *OPEN, config=config) as broker:
        clients = [connected(broker, f"c{number}") for number in range(3)]
        with RawClient(broker.port) as surplus:
            assert surplus.is_closed()
        assert broker.metric('spaps_connections_refused_total{cause="too_many"}') == 1
        clients.pop().close()
        until(lambda: broker.metric("spaps_connections") == 2, "a free place")
        assert is_alive(broker)
        for client in clients:
            client.ping()
            client.close()


def test_connections_of_one_address_leave_room_for_others(tmp_path: Path) -> None:
    config = "[broker.limits]\nconnections = 4\nconnections_of_address = 3\n"
    with running_broker(tmp_path, *OPEN, config=config) as broker:
        # They say nothing: what they are is not known yet.
        silent = [
            socket.create_connection(("127.0.0.1", broker.port), 30, ("127.0.0.2", 0))
            for _ in range(5)
        ]
        refused = 'spaps_connections_refused_total{cause="too_many_of_address"}'
        until(lambda: broker.metric(refused) == 2, "two refused connections")
        assert broker.metric("spaps_connections") == 3
        assert is_alive(broker)
        for link in silent:
            link.close()
        until(lambda: broker.metric("spaps_connections") == 0, "an empty broker")


def test_no_file_descriptors_left(tmp_path: Path) -> None:
    """All that the process may open are used up from outside, and its files are read meanwhile.

    Nobody gets in who could not before (CVE-2017-7652), and afterwards it serves as before.
    """
    (tmp_path / "users").write_text(f"alice:{hash_password('secret')}\n")
    (tmp_path / "rules").write_text("user alice\ntopic readwrite mine\n")
    config = f'[broker]\npassword_file = "{tmp_path}/users"\nacl_file = "{tmp_path}/rules"\n'
    limited = ("/bin/sh", "-c", 'ulimit -n 90; exec "$@"', "sh")
    arguments = ("--memberships", "none", "--http", "0")
    with running_broker(tmp_path, *arguments, config=config, prefix=limited) as broker:

        def answer(**login: object) -> int | None:
            """The reason code of a CONNACK; None when there is no room for a client."""
            try:
                with RawClient(broker.port) as client:
                    return client.connect(**login)[1]
            except (EOFError, OSError):
                return None

        alice = {"user": "alice", "password": b"secret"}
        assert answer(**alice) == 0
        ports = (broker.port, broker.ports["http"])
        crowd = [socket.create_connection(("127.0.0.1", port)) for port in ports * 60]
        broker.reload()
        broker.wait_for_log("access files read again")
        assert answer() in (None, NOT_AUTHORIZED)
        for visitor in crowd:
            visitor.close()
        until(lambda: answer(**alice) == 0, "service after the crowd")
        assert answer() == NOT_AUTHORIZED
        assert answer(user="alice", password=b"wrong") == BAD_PASSWORD
        with RawClient(broker.port) as client:
            client.connect(**alice)
            for topic, code in (("mine", 0), ("not/mine", NOT_AUTHORIZED)):
                client.send(subscribe_packet(topic))
                assert client.read_packet()[1][-1] == code


def test_clients_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    """Half-done QoS 1 and 2 in both directions, wills, errors: nothing grows with visitors."""
    unanswered = [packet(PUBLISH | qos << 1, text("a/1/x"), b"\x00\x07\x00x") for qos in (1, 2)]
    with running_broker(tmp_path, *OPEN) as broker:

        def visit(number: int) -> None:
            will = ("a/2/gone", b"x") if number % 2 else None
            with connected(broker, f"visitor{number}", will=will) as client:
                client.send(subscribe_packet(f"a/{number % 7}/+", options=2))
                client.send(b"".join(unanswered))
                if number % 3 == 0:
                    client.send(packet(SUBSCRIBE, b"\x00"))  # malformed: thrown out
                elif number % 3 == 1:
                    client.ping()

        def figures() -> tuple[float, ...]:
            names = (
                "process_open_fds", "spaps_sessions", "spaps_subscriptions", "spaps_tasks",
                "spaps_in_flight_messages", "spaps_queued_messages", "spaps_queued_bytes",
            )  # fmt: skip
            return tuple(broker.metric(name) for name in names)

        def crowd(size: int) -> None:
            for number in range(size):
                visit(number)
            until(lambda: broker.metric("spaps_connections") == 0, "the last one to leave")

        crowd(100)
        before, used = figures(), memory(broker)
        crowd(600)
        until(
            lambda: all(now <= then for now, then in zip(figures(), before, strict=True)),
            f"not more than {before}",
        )
        assert memory(broker) < used + 8 * MEGABYTE


def test_connack_comes_before_anything_else(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        client.send(connect_packet("eager") + subscribe_packet("x") + publish_packet("x", b"1"))
        kinds = [client.read_packet()[0] & 0xF0 for _ in range(3)]
        assert kinds == [CONNACK, 0x90, PUBLISH]
