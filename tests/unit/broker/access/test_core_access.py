"""Access rules: every action judged, verdicts remembered, and taken back."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.requests import Judge
from broker.core.verdicts import Action
from tests.broker_core import encode
from tests.broker_core.access_rules import EXPIRY, Rules
from tests.broker_core.harness import Harness


@pytest.fixture(params=[False, True], ids=["at once", "later"])
def rules(request: pytest.FixtureRequest) -> Rules:
    rules = Rules()
    rules.is_slow = request.param
    return rules


@pytest.fixture
def harness(rules: Rules) -> Harness:
    harness = Harness(access=rules)
    harness.judge = lambda _client, topic, action: rules.decide(topic, action)
    return harness


def test_publish(rules: Rules, harness: Harness) -> None:
    rules.denied = {(Action.PUBLISH, "secret")}
    client = harness.connect("c")
    client.subscribe("#")
    client.take()
    client.send(encode.publish("secret", b"x"), encode.publish("open", b"x"))
    assert [one.topic for one in client.messages()] == ["open"]
    for qos in (1, 2):
        (answer,) = client.send(encode.publish("secret", b"x", qos=qos, packet_id=qos))
        assert int(answer.reason_code) == 0x87
    assert harness.core.counters.drops[Drop.REFUSED] == 1


def test_subscribe(rules: Rules, harness: Harness) -> None:
    rules.denied = {(Action.SUBSCRIBE, "a/#")}
    client = harness.connect("c")
    (suback,) = client.send(encode.subscribe(("a/#", 0), ("b", 1), ("$share/g/a/#", 0)))
    assert [int(code) for code in suback.reason_codes] == [0x87, 1, 0x87]
    assert harness.core.index.count == 1
    assert harness.core.index.shared_count == 0


def test_the_code_of_a_refusal_is_the_deciders() -> None:
    class Unspecified(Rules):
        def decide(self, topic: str, action: Action) -> ReasonCode:  # noqa: ARG002
            return ReasonCode.UNSPECIFIED_ERROR

    suback = Harness(access=Unspecified()).connect("c").subscribe("test/nosubscribe")
    assert int(suback.reason_codes[0]) == 0x80


def test_receive_is_judged_for_each_topic(rules: Rules, harness: Harness) -> None:
    rules.denied = {(Action.RECEIVE, "a/secret")}
    reader, publisher = harness.connect("r"), harness.connect("p")
    reader.subscribe("a/#", 1)
    for _ in range(3):
        publisher.send(encode.publish("a/secret", b"x"), encode.publish("a/open", b"x"))
    publisher.send(encode.publish("a/secret", b"x", qos=1, packet_id=1))
    assert [one.topic for one in reader.messages()] == ["a/open"] * 3
    assert harness.core.counters.drops[Drop.NOT_ALLOWED] == 4


def test_retained_messages_are_judged(rules: Rules, harness: Harness) -> None:
    publisher = harness.connect("p")
    publisher.send(
        encode.publish("a/1", b"x", retain=True), encode.publish("a/2", b"x", retain=True)
    )
    rules.denied = {(Action.RECEIVE, "a/1")}
    reader = harness.connect("r")
    reader.subscribe("a/#")
    assert [one.topic for one in reader.messages()] == ["a/2"]


def test_what_an_author_may_no_longer_say_is_not_given_out(rules: Rules, harness: Harness) -> None:
    """CVE-2018-12546: the retained messages of somebody whose right was taken away."""
    publisher = harness.connect("p")
    for topic in ("a/1", "a/2", "a/3"):
        publisher.send(encode.publish(topic, b"x", retain=True))
    publisher.lose()
    rules.denied = {(Action.PUBLISH, "a/2")}
    harness.core.access_changed()
    reader = harness.connect("r")
    reader.subscribe("a/#", 1)
    assert sorted(one.topic for one in reader.messages()) == ["a/1", "a/3"]
    assert harness.core.counters.drops[Drop.NOT_ALLOWED] == 1
    # Given back, the message is there again.
    rules.denied = set()
    harness.core.access_changed()
    reader.subscribe("a/2")
    assert [one.topic for one in reader.messages()] == ["a/2"]


def test_the_author_of_a_retained_will_is_its_client(rules: Rules, harness: Harness) -> None:
    gone = harness.connect("g", flags=0x26, rest=encode.will("a/will", b"bye"))
    gone.lose()
    rules.denied = {(Action.PUBLISH, "a/will")}
    harness.core.access_changed()
    reader = harness.connect("r")
    reader.subscribe("a/#")
    assert reader.messages() == []
    assert harness.core.retained.find("a/will") is not None


def test_a_reader_may_go_on_while_an_author_is_judged() -> None:
    rules = Rules()
    harness = Harness(access=rules)
    publisher = harness.connect("p")
    for topic in ("a/1", "a/2"):
        publisher.send(encode.publish(topic, b"x", qos=1, packet_id=1, retain=True))
    reader = harness.connect("r")
    harness.core.access_changed()
    rules.is_slow = True
    reader.send(encode.subscribe(("a/#", 1)))
    harness.held = (Judge,)
    reader.send(encode.subscribe(("a/#", 1)))
    harness.answer_waiting()  # the subscription itself
    while harness.waiting:
        assert isinstance(reader.send(encode.PINGREQ)[-1], mqtt5.PingRespPacket)
        harness.answer_waiting()
    assert {one.topic for one in reader.messages()} == {"a/1", "a/2"}


def test_verdicts_are_remembered(rules: Rules, harness: Harness) -> None:
    reader, publisher = harness.connect("r"), harness.connect("p")
    reader.subscribe("t")
    for _ in range(50):
        publisher.send(encode.publish("t", b"x"))
    assert len(reader.messages()) == 50
    assert rules.asked == [(Action.SUBSCRIBE, "t"), (Action.PUBLISH, "t"), (Action.RECEIVE, "t")]


def test_a_right_that_is_taken_away_stops_everything(rules: Rules, harness: Harness) -> None:
    reader = harness.connect("r", properties=EXPIRY + b"\x21\x00\x01")
    publisher = harness.connect("p")
    reader.subscribe("t", 1)
    for number in (1, 2, 3):
        publisher.send(encode.publish("t", b"%d" % number, qos=1, packet_id=number))
    (in_flight,) = reader.messages()
    rules.denied = {(Action.RECEIVE, "t"), (Action.PUBLISH, "t")}
    harness.core.access_changed()
    # Queued.
    reader.send(encode.ack(0x40, in_flight.packet_id))
    assert reader.messages() == []
    # Live.
    publisher.take()
    (puback,) = publisher.send(encode.publish("t", b"4", qos=1, packet_id=4))
    assert int(puback.reason_code) == 0x87
    assert reader.messages() == []


def test_a_right_that_is_taken_away_stops_repetitions(rules: Rules, harness: Harness) -> None:
    reader, publisher = harness.connect("r", properties=EXPIRY), harness.connect("p")
    reader.subscribe("t", 1)
    publisher.send(encode.publish("t", b"x", qos=1, packet_id=1))
    assert len(reader.messages()) == 1
    reader.lose()
    rules.denied = {(Action.RECEIVE, "t")}
    harness.core.access_changed("r")
    again = harness.connect("r", flags=0, properties=EXPIRY)
    assert again.messages() == []


def test_a_right_that_is_given_back_is_seen(rules: Rules, harness: Harness) -> None:
    rules.denied = {(Action.RECEIVE, "t")}
    client = harness.connect("c")
    client.subscribe("t")
    client.send(encode.publish("t", b"1"))
    rules.denied = set()
    harness.core.access_changed()
    client.send(encode.publish("t", b"2"))
    assert [one.payload for one in client.messages()] == [b"2"]


def test_a_slow_verdict_holds_back_its_publisher_in_order_and_nobody_else() -> None:
    rules = Rules()
    harness = Harness(access=rules)
    reader, publisher, other = (harness.connect(name) for name in "rpo")
    reader.subscribe("#")
    reader.take()
    rules.is_slow = True
    harness.held = (Judge,)
    harness.core.receive(
        publisher.connection,
        encode.publish("a", b"1") + encode.publish("b", b"2") + encode.publish("a", b"3"),
    )
    harness.settle()
    assert publisher.connection.is_blocked
    harness.core.receive(publisher.connection, encode.publish("a", b"4") + encode.PINGREQ)
    (pong,) = other.send(encode.PINGREQ)
    assert isinstance(pong, mqtt5.PingRespPacket)
    assert publisher.take()[1:] == []
    while harness.waiting:
        harness.answer_waiting()
    found = reader.messages()
    # The reader's own verdicts come one by one too: order is promised for each topic.
    assert [one.payload for one in found if one.topic == "a"] == [b"1", b"3", b"4"]
    assert [one.payload for one in found if one.topic == "b"] == [b"2"]
    assert not publisher.connection.is_blocked
    assert publisher.connection in harness.unblocked


def test_a_client_that_leaves_while_judged_leaves_nothing_behind() -> None:
    rules = Rules()
    rules.is_slow = True
    harness = Harness(access=rules)
    harness.held = (Judge,)
    client = harness.connect("c")
    client.send(encode.subscribe(("t", 0)))
    client.lose()
    publisher = harness.connect("p")
    publisher.send(encode.publish("t", b"x"))
    publisher.lose()
    harness.answer_waiting()
    assert harness.core.index.count == 0
    assert harness.waiting == []
