"""Limits of the core at their edges: what is allowed is served, one more is not."""

from __future__ import annotations

import mqtt5
import pytest

from broker.limits import BrokerLimits
from tests.broker_core import wire
from tests.broker_core.harness import Client, Harness

QUOTA_EXCEEDED = 0x97
ALIAS_INVALID = 0x94


def codes(client: Client, *patterns: str) -> list[int]:
    (suback,) = client.send(wire.subscribe(*((pattern, 0) for pattern in patterns)))
    return [int(code) for code in suback.reason_codes]


def test_subscriptions_of_one_client() -> None:
    harness = Harness(limits=BrokerLimits(subscriptions=3))
    client, other = harness.connect("c"), harness.connect("o")
    client.take()
    assert codes(client, "a", "b", "c", "d") == [0, 0, 0, QUOTA_EXCEEDED]
    # One that is held already may be renewed, and one that is given back makes room.
    assert codes(client, "a") == [0]
    client.send(wire.unsubscribe("b"))
    client.take()
    assert codes(client, "d", "e") == [0, QUOTA_EXCEEDED]
    other.take()
    assert codes(other, "a") == [0], "each client has its own"


def test_messages_in_flight_to_one_client() -> None:
    """Ours, although the client would take more at once."""
    harness = Harness(limits=BrokerLimits(in_flight=2))
    reader, writer = harness.connect("r"), harness.connect("w")
    reader.subscribe("t", 1)
    reader.take()
    for number in (1, 2, 3):
        writer.send(wire.publish("t", b"%d" % number, qos=1, packet_id=number))
    first, second = reader.messages()
    assert [first.payload, second.payload] == [b"1", b"2"]
    reader.send(wire.ack(0x40, first.packet_id))
    assert [one.payload for one in reader.messages()] == [b"3"]


@pytest.mark.parametrize(("size", "code"), [(12, 0x00), (13, 0x85)])
def test_the_length_of_a_client_id(size: int, code: int) -> None:
    """Counted in bytes: the letter takes two."""
    harness = Harness(limits=BrokerLimits(client_id_bytes=12))
    client = harness.connect("ä" + "x" * (size - 2))
    assert int(client.packets[0].reason_code) == code
    assert client.is_closed == (code != 0)


@pytest.mark.parametrize(("alias", "served"), [(5, True), (6, False)])
def test_topic_aliases_of_a_client(alias: int, served: bool) -> None:
    harness = Harness(limits=BrokerLimits(topic_aliases_in=5))
    client = harness.connect("c")
    assert client.take()[0].topic_alias_max == 5
    client.send(wire.publish("t", properties=b"\x23" + alias.to_bytes(2, "big")))
    assert client.is_closed is not served
    if not served:
        (goodbye,) = client.take()
        assert int(goodbye.reason_code) == ALIAS_INVALID


def test_topic_aliases_towards_a_client() -> None:
    """The client allows ten, we use two; further topics are written out."""
    harness = Harness(limits=BrokerLimits(topic_aliases_out=2))
    client = harness.connect("c", properties=b"\x22\x00\x0a")
    client.subscribe("#")
    client.take()
    for topic in ("a", "b", "c") * 2:
        client.send(wire.publish(topic, b"x"))
    found = client.messages()
    aliases = {one.topic_alias for one in found}
    assert aliases - {None} == {1, 2}
    assert len(found) == 6


def test_remembered_routes_are_bounded_and_only_a_memory() -> None:
    harness = Harness(limits=BrokerLimits(cached_routes=10))
    client = harness.connect("c")
    client.subscribe("#")
    client.take()
    for number in range(35):
        client.send(wire.publish(f"t/{number}", b"x"))
    assert len(client.messages()) == 35
    assert 0 < len(harness.core._state.routes.by_topic) <= 10


def test_what_is_over_a_limit_ends_nothing_else() -> None:
    harness = Harness(limits=BrokerLimits(subscriptions=1))
    client = harness.connect("c")
    client.take()
    codes(client, "a", "b")
    (pong,) = client.send(wire.PINGREQ)
    assert isinstance(pong, mqtt5.PingRespPacket)
