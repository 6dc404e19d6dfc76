"""Edges that conformance suites found: packet limits in both directions, QoS 2 out of turn."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

PUBREC, PUBCOMP = 0x50, 0x70
PROTOCOL_ERROR = 0x82
PACKET_TOO_LARGE = 0x95
# A CONNACK with a reason code and no properties.
SHORT_CONNACK = 5


def takes_at_most(size: int) -> bytes:
    return b"\x27" + size.to_bytes(4, "big")


def refused(size: int, **keywords: object) -> Client:
    harness = Harness()
    harness.logins = lambda _request: ReasonCode.NOT_AUTHORIZED
    return harness.connect("c", properties=takes_at_most(size), **keywords)


# With the text "not let in" and its identifier the properties grow by 13 bytes.
@pytest.mark.parametrize(
    ("size", "length"), [(4, 0), (5, 5), (6, 5), (17, 5), (18, 18), (1_000, 18)]
)
def test_a_refusing_connack_keeps_to_the_packet_limit(size: int, length: int) -> None:
    client = refused(size)
    assert client.is_closed
    assert len(client.raw) == length
    assert all(one.reason_code == 0x87 for one in client.packets)


@pytest.mark.parametrize("rest", [b"xx", b"\x00"])
def test_it_does_so_for_a_connect_that_is_malformed_after_its_properties(rest: bytes) -> None:
    client = refused(SHORT_CONNACK, rest=rest)
    assert client.is_closed
    assert client.raw == b"\x20\x03\x00\x81\x00"


# Topics of 10 and 200 bytes: the remaining length takes one byte, or two.
@pytest.mark.parametrize("topic", ["t" * 10, "t" * 200])
@pytest.mark.parametrize("spare", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("peid", [b"", encode.user("peid", "7")])
def test_the_packet_limit_counts_the_fixed_header(topic: str, spare: int, peid: bytes) -> None:
    packet = encode.publish(topic, b"x" * 40, properties=peid)
    harness = Harness(limits=BrokerLimits(packet_bytes=len(packet) + spare))
    client = harness.connect("c")
    client.subscribe("#")
    # The second of two finds the route of the first: it would take the fast path.
    small = encode.publish(topic, b"x" * 3, properties=peid)
    client.send(small)
    client.take()
    *came, last = client.send(small, packet)
    assert [one.payload for one in came] == [b"xxx"]
    if spare < 0:
        assert (type(last), last.reason_code) == (mqtt5.DisconnectPacket, PACKET_TOO_LARGE)
    else:
        assert last.payload == b"x" * 40


def qos_2_receiver() -> tuple[Client, int]:
    harness = Harness()
    client = harness.connect("c")
    client.subscribe("t", 2)
    client.take()
    harness.connect("p").send(encode.publish("t", b"x", qos=2, packet_id=1))
    (message,) = client.messages()
    return client, message.packet_id


def test_pubcomp_in_place_of_pubrec_ends_the_connection() -> None:
    client, packet_id = qos_2_receiver()
    (end,) = client.send(encode.ack(PUBCOMP, packet_id))
    assert (type(end), end.reason_code) == (mqtt5.DisconnectPacket, PROTOCOL_ERROR)
    assert client.is_closed


def test_pubcomp_after_pubrec_and_once_more_is_legal() -> None:
    client, packet_id = qos_2_receiver()
    assert [type(one) for one in client.send(encode.ack(PUBREC, packet_id))] == [mqtt5.PubRelPacket]
    assert client.send(encode.ack(PUBCOMP, packet_id), encode.ack(PUBCOMP, packet_id)) == []
    assert not client.is_closed
