"""Connections that are idle, too many, or come and go by the thousand."""

from __future__ import annotations

import socket
from pathlib import Path

from broker.access.passwords import hash_password
from tests.scenes.broker.open_broker import MEGABYTE, OPEN, connected, is_alive, memory
from tests.servers.raw_client import (
    CONNACK,
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

BAD_PASSWORD, NOT_AUTHORIZED = 0x86, 0x87


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
