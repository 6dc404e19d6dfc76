"""Output that clients do not read is bounded over all of them, on a running broker."""

from __future__ import annotations

from pathlib import Path

import pytest

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
CONFIG = f"""[broker]
memberships = 'none'
allow_anonymous = true
[broker.limits]
output_bytes = {16 * MEGABYTE}
"""
EXPIRY = b"\x11\x00\x00\x0e\x10"
LARGE = 900_000


def subscriber(port: int, client_id: str, topic: str, qos: int = 0) -> RawClient:
    client = RawClient(port)
    client.connect(client_id=client_id, clean=False, properties=EXPIRY)
    client.send(packet(SUBSCRIBE, b"\x00\x01\x00", text(topic) + bytes((qos,))))
    assert client.read_packet()[0] == SUBACK
    return client


def publish(client: RawClient, topic: str, qos: int, size: int = LARGE) -> None:
    identifier = b"\x00\x01" if qos else b""
    client.send(packet(PUBLISH | qos << 1, text(topic), identifier, varint(0), b"x" * size))
    if qos:
        assert client.read_packet()[0] == PUBACK


def closed(broker: RunningBroker) -> float:
    return broker.metric('spaps_refusals_total{limit="output_bytes"}')


def send_pings(client: RawClient) -> None:
    for _ in range(5_000):
        client.send(b"\xc0\x00" * 10_000)


@pytest.mark.parametrize("qos", [0, 1])
def test_who_holds_the_most_unread_output_is_closed(tmp_path: Path, qos: int) -> None:
    with running_broker(tmp_path, "--http", "127.0.0.1:0", config=CONFIG) as broker:
        idle = [subscriber(broker.port, f"idle{number}", "big", qos) for number in range(60)]
        reader = subscriber(broker.port, "reader", "small")
        with RawClient(broker.port) as writer:
            writer.connect(client_id="writer")
            for _ in range(6):
                publish(writer, "big", qos)
            until(lambda: closed(broker) > 0, "a client that does not read is closed")
            until(lambda: broker.metric("spaps_output_bytes") <= 16 * MEGABYTE, "room again")
            # Those who hold little are served on.
            publish(writer, "small", 0, 100)
            assert reader.read_packet()[1].endswith(b"x" * 100)
            writer.ping()
            reader.ping()
        assert "too much was written that clients have not read" in broker.log
        assert broker.metric("spaps_connections") == 1 + len(idle) - closed(broker)
        assert broker.metric("spaps_sessions") >= len(idle)
        for client in idle:
            client.close()
        if qos:
            # What was not acknowledged is still there.
            with RawClient(broker.port) as again:
                again.connect(client_id="idle0", clean=False, properties=EXPIRY)
                first, body = again.read_packet()
                assert first & 0xF0 == PUBLISH
                assert len(body) > LARGE


def test_clients_that_read_are_not_closed(tmp_path: Path) -> None:
    """What all get together is several times the limit."""
    with running_broker(tmp_path, "--http", "127.0.0.1:0", config=CONFIG) as broker:
        readers = [subscriber(broker.port, f"r{number}", "big") for number in range(10)]
        with RawClient(broker.port) as writer:
            writer.connect(client_id="writer")
            for _ in range(20):
                publish(writer, "big", 0)
                for reader in readers:
                    assert len(reader.read_packet()[1]) > LARGE
        assert broker.metric("spaps_bytes_sent_total") > 10 * 16 * MEGABYTE
        assert closed(broker) == 0
        assert broker.metric('spaps_drops_total{cause="slow_consumer"}') == 0
        assert broker.metric("spaps_connections") == len(readers)
        for reader in readers:
            reader.close()


def test_reading_stops_from_a_client_that_does_not_read_its_answers(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--http", "127.0.0.1:0", config=CONFIG) as broker:
        client = RawClient(broker.port, timeout=2.0)
        client.connect(client_id="pinger")
        with pytest.raises(TimeoutError):
            send_pings(client)
        assert broker.metric("spaps_reading_stopped_total") == 1
        assert broker.metric("spaps_connections_not_read") == 1
        assert "nothing more is read from a client that does not read its answers" in broker.log
        client.close()
