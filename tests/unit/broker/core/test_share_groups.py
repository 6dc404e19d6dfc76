"""Shared subscriptions: a member that cannot take a message passes it on to the next."""

from __future__ import annotations

from typing import Any

import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.journal import MessageDone, MessageQueued
from broker.core.limits import BrokerLimits
from broker.core.verdicts import Action, Identity
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

KEPT = b"\x11\x00\x00\x0e\x10"


class Rules:
    """Lets clients receive, but for those in ``denied``; may answer later."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.denied: set[str] = set()
        self.is_slow = is_slow

    def decide(self, client: Identity, action: Action) -> ReasonCode:
        is_denied = action is Action.RECEIVE and client.client_id in self.denied
        return ReasonCode.NOT_AUTHORIZED if is_denied else ReasonCode.SUCCESS

    def verdict(self, client: Identity, _topic: str, action: Action) -> ReasonCode | None:
        return None if self.is_slow else self.decide(client, action)


def takes_at_most(size: int) -> bytes:
    return b"\x27" + size.to_bytes(4, "big")


def member(harness: Harness, name: str, qos: int = 1, properties: bytes = KEPT) -> Client:
    client = harness.connect(name, properties=properties)
    client.subscribe("$share/g/t", qos)
    client.take()
    return client


def back(harness: Harness, name: str, properties: bytes = KEPT) -> Client:
    return harness.connect(name, flags=0, properties=properties)


def publish(publisher: Client, count: int, qos: int = 1, payload: bytes = b"x") -> list[int]:
    """The reason codes of the answers; payloads are numbered from 1."""
    codes = []
    for number in range(1, count + 1):
        packet_id = number if qos else None
        packet = encode.publish("t", b"%d" % number + payload, qos=qos, packet_id=packet_id)
        for answer in publisher.send(packet):
            codes.append(int(answer.reason_code))
            if qos == 2:
                publisher.send(encode.ack(0x62, number))
    return codes


def payloads(client: Client) -> list[bytes]:
    return [one.payload for one in client.messages()]


def drops(harness: Harness) -> dict[Drop, int]:
    return dict(harness.core.counters.drops)


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
