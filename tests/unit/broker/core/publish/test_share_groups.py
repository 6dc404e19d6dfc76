"""Shared subscriptions: a member that cannot take a message passes it on."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.share_groups import (
    KEPT,
    Rules,
    back,
    drops,
    member,
    payloads,
    publish,
    takes_at_most,
)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("is_slow", [False, True], ids=["at once", "later"])
def test_a_member_whose_right_was_revoked(qos: int, is_slow: bool) -> None:
    rules = Rules(is_slow=is_slow)
    harness = Harness(access=rules)
    harness.judge = lambda client, _topic, action: rules.decide(client, action)
    publisher = harness.connect("p")
    one, other = member(harness, "one", qos), member(harness, "other", qos)
    publish(publisher, 4, qos)
    assert (len(payloads(one)), len(payloads(other))) == (2, 2)
    rules.denied = {"one"}
    harness.core.access_changed()
    publish(publisher, 4, qos)
    assert (payloads(one), payloads(other)) == ([], [b"1x", b"2x", b"3x", b"4x"])
    assert drops(harness) == {}
    rules.denied = {"one", "other"}
    harness.core.access_changed()
    codes = publish(publisher, 4, qos)
    assert drops(harness) == {Drop.NOT_ALLOWED: 4}
    assert set(codes) <= {0}, "there are subscribers, so 0x10 would be wrong"
    assert payloads(one) + payloads(other) == []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_member_whose_packet_limit_is_too_small(qos: int) -> None:
    harness = Harness()
    publisher = harness.connect("p")
    small = member(harness, "small", qos, KEPT + takes_at_most(60))
    other = member(harness, "other", qos)
    publish(publisher, 4, qos, b"x" * 100)
    assert (payloads(small), len(payloads(other))) == ([], 4)
    publish(publisher, 4, qos)
    assert (len(payloads(small)), len(payloads(other))) == (2, 2)
    assert drops(harness) == {}
    other.send(encode.unsubscribe("$share/g/t"))
    publish(publisher, 3, qos, b"x" * 100)
    assert drops(harness) == {Drop.TOO_LARGE: 3}
    assert payloads(small) == []


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_at_the_edge_of_the_packet_limit(spare: int) -> None:
    """With the properties of its own subscription, which are part of the packet."""
    harness = Harness()
    publisher = harness.connect("p")
    identifier = b"\x0b\x01"
    payload = b"x" * 40
    packet = encode.publish("t", b"1" + payload, qos=1, packet_id=1, properties=identifier)
    first = harness.connect("first", properties=takes_at_most(len(packet) + spare))
    first.subscribe("$share/g/t", 1, properties=identifier)
    first.take()
    other = member(harness, "other")
    publish(publisher, 1, 1, payload)
    assert (len(payloads(first)), len(payloads(other))) == ((0, 1) if spare < 0 else (1, 0))


def test_a_member_whose_queue_is_full() -> None:
    harness = Harness(limits=BrokerLimits(in_flight=1, queued_messages=2))
    publisher = harness.connect("p")
    one, other = member(harness, "one"), member(harness, "other")
    # Nobody acknowledges: each has one message in flight and two in its queue.
    publish(publisher, 6)
    assert drops(harness) == {}
    (first,) = other.messages()
    other.send(encode.ack(0x40, first.packet_id))
    # It is the turn of the one whose queue is full.
    publish(publisher, 1)
    assert drops(harness) == {}
    assert publish(publisher, 2) == [0, 0]
    assert drops(harness) == {Drop.QUEUE_FULL: 2}
    assert (len(payloads(one)), len(payloads(other))) == (1, 1)


def test_qos_0_goes_to_who_is_there_and_reads() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    one, other, away = (member(harness, name, 0) for name in ("one", "other", "away"))
    away.lose()
    harness.core.pause_writing(one.connection)
    publish(publisher, 4, 0)
    assert (payloads(one), len(payloads(other))) == ([], 4)
    assert drops(harness) == {}
    harness.core.pause_writing(other.connection)
    publish(publisher, 1, 0)
    assert drops(harness) == {Drop.SLOW_CONSUMER: 1}
    one.lose()
    other.lose()
    publish(publisher, 2, 0)
    assert drops(harness) == {Drop.SLOW_CONSUMER: 1, Drop.AWAY: 2}


def test_who_is_away_gets_what_nobody_else_can_take() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    small, away = member(harness, "small", 1, takes_at_most(60)), member(harness, "away")
    away.lose()
    publish(publisher, 2, 1, b"x" * 100)
    assert payloads(small) == []
    assert len(payloads(back(harness, "away"))) == 2
    assert drops(harness) == {}


def near(harness: Harness, name: str, nsid: int, **keywords: Any) -> Client:
    client = harness.connect(name, **keywords)
    client.subscribe_near("$share/g/t", "near", nsid=nsid, options=1)
    client.take()
    return client


def test_members_with_neighborhoods() -> None:
    rules = Rules()
    harness = Harness(access=rules)
    harness.neighborhoods = {"near": [1], "far": [2]}
    publisher = harness.connect("p")
    one, other = near(harness, "one", 1, properties=KEPT), near(harness, "other", 2)
    far = harness.connect("far")
    far.subscribe_near("$share/g/t", "far", nsid=3, options=1)
    far.take()
    rules.denied = {"one"}
    harness.core.access_changed()
    about = encode.publish("t", b"x", qos=1, packet_id=1, properties=encode.user("peid", "1"))
    publisher.send(about, about)
    found = other.messages()
    assert [message.user_properties for message in found] == [[("nsid", "2"), ("peid", "1")]] * 2
    other.send(*[encode.ack(0x40, message.packet_id) for message in found])
    # What was queued finds the next neighborhood too, and no member that is far away.
    rules.denied = set()
    harness.core.access_changed()
    one.lose()
    other.lose()
    publisher.send(about)
    rules.denied = {"one"}
    harness.core.access_changed()
    other = near(harness, "other", 2)
    back(harness, "one")
    assert len(other.messages()) == 1
    assert far.messages() == []
    assert drops(harness) == {}


def test_a_subscription_of_its_own_beside_the_group() -> None:
    """What it loses by its own subscription is counted, what the group gets is passed on."""
    rules = Rules()
    harness = Harness(access=rules)
    publisher = harness.connect("p")
    one = member(harness, "one")
    one.subscribe("t", 1)
    one.lose()
    publish(publisher, 2)
    other = member(harness, "other")
    rules.denied = {"one"}
    harness.core.access_changed()
    assert payloads(back(harness, "one")) == []
    assert payloads(other) == [b"1x", b"2x"]
    assert drops(harness) == {Drop.NOT_ALLOWED: 2}
