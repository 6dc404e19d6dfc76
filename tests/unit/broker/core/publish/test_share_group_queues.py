"""Shared subscriptions: what happens to the queued messages of a member."""

from __future__ import annotations

import pytest

from broker.core.counters import Drop
from broker.core.journal import MessageDone, MessageQueued
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


def waiting_for_one(
    harness: Harness, qos: int = 1, count: int = 3, payload: bytes = b"x"
) -> tuple[Client, Client]:
    """A publisher, and a second member that came after messages were queued for the first."""
    publisher = harness.connect("p")
    member(harness, "one", qos).lose()
    publish(publisher, count, qos, payload)
    return publisher, member(harness, "other", qos)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("durable", [False, True])
def test_queued_messages_of_a_member_whose_right_goes(qos: int, durable: bool) -> None:
    rules = Rules()
    harness = Harness(access=rules, durable=durable)
    _publisher, other = waiting_for_one(harness, qos)
    rules.denied = {"one"}
    harness.core.access_changed()
    assert payloads(back(harness, "one")) == []
    assert payloads(other) == [b"1x", b"2x", b"3x"]
    assert drops(harness) == {}
    if durable:
        # First it is stored for the next member, then it is over for this one.
        done = [n for n, one in enumerate(harness.records) if isinstance(one, MessageDone)]
        queued = [
            number
            for number, one in enumerate(harness.records)
            if isinstance(one, MessageQueued) and one.client_id == "other"
        ]
        assert [first < second for first, second in zip(queued, done, strict=True)] == [True] * 3


def test_queued_messages_that_are_too_large_for_their_member_now() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    member(harness, "one").lose()
    publish(publisher, 3, 1, b"x" * 100)
    other = member(harness, "other")
    assert payloads(back(harness, "one", KEPT + takes_at_most(60))) == []
    assert [one[:1] for one in payloads(other)] == [b"1", b"2", b"3"]
    assert drops(harness) == {}


def test_queued_messages_of_a_member_that_leaves_the_group() -> None:
    harness = Harness(limits=BrokerLimits(in_flight=1))
    publisher = harness.connect("p")
    one = member(harness, "one")
    publish(publisher, 3)
    other = member(harness, "other")
    (first,) = one.messages()
    one.send(encode.unsubscribe("$share/g/t"))
    one.send(encode.ack(0x40, first.packet_id))
    (second,) = other.messages()
    assert (first.payload, second.payload) == (b"1x", b"2x")
    other.send(encode.ack(0x40, second.packet_id))
    assert payloads(other) == [b"3x"]
    assert drops(harness) == {}


@pytest.mark.parametrize("cause", [Drop.NOT_ALLOWED, Drop.TOO_LARGE])
def test_a_long_queue_is_passed_on_in_pieces(cause: Drop) -> None:
    rules = Rules()
    harness = Harness(access=rules, limits=BrokerLimits(in_flight=2_000))
    _publisher, other = waiting_for_one(harness, count=1_300, payload=b"x" * 100)
    if cause is Drop.NOT_ALLOWED:
        rules.denied = {"one"}
        harness.core.access_changed()
        back(harness, "one")
    else:
        back(harness, "one", KEPT + takes_at_most(60))
    at_once = len(payloads(other))
    assert 0 < at_once < 1_300
    harness.advance(1)
    assert at_once + len(payloads(other)) == 1_300
    assert drops(harness) == {}
    session = harness.core.sessions.find("one")
    assert session is not None
    assert (len(session.outgoing.queue), session.outgoing.bytes) == (0, 0)


@pytest.mark.parametrize("qos", [1, 2])
def test_messages_of_a_member_whose_session_ends(qos: int) -> None:
    """In flight at QoS 1, and queued; at QoS 2 nobody else may get what is in flight."""
    harness = Harness(limits=BrokerLimits(in_flight=1))
    publisher = harness.connect("p")
    one = member(harness, "one", qos, b"")
    publish(publisher, 3, qos)
    other = member(harness, "other", qos)
    assert payloads(one) == [b"1x"]
    one.lose()
    expected = [b"1x", b"2x", b"3x"] if qos == 1 else [b"2x", b"3x"]
    received = []
    while found := other.messages():
        received += [message.payload for message in found]
        other.send(encode.ack(0x40 if qos == 1 else 0x50, found[0].packet_id))
        if qos == 2:
            other.send(encode.ack(0x70, found[0].packet_id))
    assert received == expected
    assert drops(harness) == {}


def test_the_last_member_ends_with_messages() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    member(harness, "one").lose()
    publish(publisher, 3)
    harness.advance(4_000)
    assert harness.core.sessions.find("one") is None
    assert drops(harness) == {Drop.SESSION_ENDED: 3}


def test_what_a_member_may_have_at_qos_2_is_not_passed_on() -> None:
    rules = Rules()
    harness = Harness(access=rules)
    publisher = harness.connect("p")
    one = member(harness, "one", 2)
    publish(publisher, 1, 2)
    assert len(payloads(one)) == 1
    one.lose()
    other = member(harness, "other", 2)
    rules.denied = {"one"}
    harness.core.access_changed()
    back(harness, "one")
    assert payloads(other) == []
    assert drops(harness) == {Drop.NOT_ALLOWED: 1}


def test_what_waits_for_the_journal_at_qos_2_is_passed_on() -> None:
    rules = Rules()
    harness = Harness(access=rules, durable=True)
    publisher = harness.connect("p")
    one, other = member(harness, "one", 2), harness.connect("other")
    harness.stores = False
    publish(publisher, 1, 2)
    harness.stores = True
    rules.denied = {"one"}
    harness.core.access_changed()
    other.send(encode.subscribe(("$share/g/t", 2)))
    harness.store()
    assert (payloads(one), payloads(other)) == ([], [b"1x"])
