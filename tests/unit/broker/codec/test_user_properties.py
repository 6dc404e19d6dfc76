"""User properties in one packet: bounded in number, and read in linear time."""

from __future__ import annotations

import time

import mqtt5
import pytest

from broker.codec.publish import read_publish
from broker.core.counters import Refusal
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

QUOTA_EXCEEDED = 0x97
EMPTY = encode.user("", "")
LIMITS = BrokerLimits(user_properties_before_connect=5, user_properties=8)
# One less than the limit, the limit, one more: how many are served.
AROUND = [(-1, True), (0, True), (1, False)]


def refusals(client: Client) -> int:
    return client.harness.core.counters.refusals[Refusal.USER_PROPERTIES]


def ended_by_quota(client: Client) -> bool:
    """Whether the connection ended with the reason code of the limit, and a text that names it."""
    if not client.is_closed:
        return False
    end = client.packets[-1]
    assert isinstance(end, mqtt5.ConnAckPacket | mqtt5.DisconnectPacket)
    is_quota = int(end.reason_code) == QUOTA_EXCEEDED
    assert is_quota == ("user properties" in (end.reason_str or ""))
    return is_quota


@pytest.mark.parametrize(("more", "served"), AROUND)
@pytest.mark.parametrize("of_will", [0, 3])
def test_in_connect_and_its_will(more: int, served: bool, of_will: int) -> None:
    count = LIMITS.user_properties_before_connect + more
    client = Harness(limits=LIMITS).connect(
        "c",
        flags=0x06,
        properties=EMPTY * (count - of_will),
        rest=encode.will("gone", b"", EMPTY * of_will),
    )
    assert client.is_closed is not served
    assert ended_by_quota(client) is not served
    assert refusals(client) == (not served)


PACKETS = {
    "publish": lambda users: encode.publish("t", b"x", properties=users),
    "publish QoS 2": lambda users: encode.publish("t", b"x", qos=2, packet_id=1, properties=users),
    "retained": lambda users: encode.publish("t", b"x", retain=True, properties=users),
    "subscribe": lambda users: encode.subscribe(("t", 0), properties=users),
    "unsubscribe": lambda users: encode.unsubscribe("t", properties=users),
    "puback": lambda users: encode.ack(0x40, 9, b"\x00" + encode.section(users)),
    "pubrec": lambda users: encode.ack(0x50, 9, b"\x00" + encode.section(users)),
    "pubrel": lambda users: encode.ack(0x62, 9, b"\x00" + encode.section(users)),
    "pubcomp": lambda users: encode.ack(0x70, 9, b"\x00" + encode.section(users)),
}


@pytest.mark.parametrize(("more", "served"), AROUND)
@pytest.mark.parametrize("kind", PACKETS)
def test_in_each_packet_of_a_client_at_work(kind: str, more: int, served: bool) -> None:
    client = Harness(limits=LIMITS).connect("c")
    client.send(PACKETS[kind](EMPTY * (LIMITS.user_properties + more)))
    assert client.is_closed is not served
    assert ended_by_quota(client) is not served
    assert refusals(client) == (not served)


@pytest.mark.parametrize(("more", "served"), AROUND)
def test_in_disconnect(more: int, served: bool) -> None:
    client = Harness(limits=LIMITS).connect("c")
    users = EMPTY * (LIMITS.user_properties + more)
    client.send(encode.packet(0xE0, b"\x00" + encode.section(users)))
    assert ended_by_quota(client) is not served


def test_each_filter_of_the_largest_subscribe_can_have_its_nsid() -> None:
    limits = BrokerLimits()
    assert limits.user_properties > limits.filters_per_packet
    assert limits.user_properties_before_connect < limits.user_properties


def test_what_it_costs_to_refuse() -> None:
    """Attacks of the largest packets: 0.4 s and 18 ms of CPU before there was a limit."""
    harness = Harness()
    client, other = harness.connect("c"), harness.connect("o")
    other.subscribe("t")
    other.take()
    publish = encode.publish("t", b"x", properties=EMPTY * 200_000)
    began = time.process_time()
    client.send(publish)
    assert time.process_time() - began < 0.05
    assert ended_by_quota(client)
    assert other.take() == [], "it goes to nobody"
    began = time.process_time()
    stranger = harness.connect("s", properties=EMPTY * 13_000)
    assert time.process_time() - began < 0.01
    assert ended_by_quota(stranger)
    assert refusals(client) == 2


def reading_seconds(count: int) -> float:
    body = encode.text("t") + encode.section(encode.user("a", "b") * count)
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        assert read_publish(body, 0x30, 0, len(body), count).properties.raw
        best = min(best, time.process_time() - began)
    return best


def test_reading_costs_linear_time() -> None:
    assert reading_seconds(20_000) < 30 * reading_seconds(2_000)
