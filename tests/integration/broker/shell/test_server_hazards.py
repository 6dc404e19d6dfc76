"""Packets of strangers and bad clients: refused without cost to anyone else."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from tests.scenes.broker.open_broker import MEGABYTE, connected, is_alive, memory
from tests.servers.raw_client import (
    CONNECT,
    DISCONNECT,
    PUBLISH,
    RawClient,
    connect_packet,
    packet,
    publish_packet,
    subscribe_packet,
    text,
)
from tests.servers.running_broker import RunningBroker, until

EVERY_OTHER_TYPE = [number << 4 for number in range(16) if number != CONNECT >> 4]
# The longest remaining length that four bytes can say.
LONGEST = b"\xff\xff\xff\x7f"
PACKET_TOO_LARGE, SLOW = 0x95, 'spaps_drops_total{cause="slow_consumer"}'


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
