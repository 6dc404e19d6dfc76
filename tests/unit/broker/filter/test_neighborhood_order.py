"""Subscribing to neighborhoods: the order of answers, limits, and subscribers that leave."""

from __future__ import annotations

from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from broker.core.requests import Resolve
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.neighborhood_messages import about, nsids


def test_what_is_sent_again_keeps_its_nsid_when_the_subscription_has_ended(
    harness: Harness,
) -> None:
    kept = b"\x11\x00\x00\x00\x64"
    client = harness.connect("d", properties=kept)
    client.subscribe_near("s/#", "near", nsid=17, options=1)
    client.subscribe_near("s/#", "far", nsid=18, options=1)
    harness.connect("p").send(about(3, qos=1, packet_id=1))
    (first,) = client.messages()
    client.send(encode.unsubscribe("s/#"))
    client.lose()
    (again,) = harness.connect("d", flags=0, properties=kept).messages()
    assert again.duplicate
    assert nsids(again) == nsids(first) == ["17", "18"]


def test_a_refused_replacement_leaves_the_old_one(client: Client) -> None:
    client.subscribe_near("s/#", "near", nsid=1)
    suback = client.subscribe_near("s/#", "bad", nsid=1)
    assert int(suback.reason_codes[0]) == 0x83
    assert suback.reason_str == "stage 1: no"
    client.send(about(1))
    assert len(client.messages()) == 1


def test_the_limit_on_neighborhoods(harness: Harness) -> None:
    harness = Harness(limits=BrokerLimits(neighborhoods=2, subscriptions=3))
    harness.neighborhoods = {"near": [1]}
    client = harness.connect("c")
    codes = [int(client.subscribe_near("t", "near").reason_codes[0]) for _ in range(3)]
    assert codes == [0, 0, 0x97]
    assert int(client.subscribe_near("t", "near", nsid=1).reason_codes[0]) == 0
    assert int(client.subscribe("a").reason_codes[0]) == 0
    assert int(client.subscribe("b").reason_codes[0]) == 0x97


def test_while_one_is_resolved_everything_but_subscribing_goes_on(
    harness: Harness, client: Client
) -> None:
    harness.held = (Resolve,)
    client.take()
    client.send(
        encode.subscribe(("s/#", 0), packet_id=1, properties=encode.user("neighborhood", "near"))
    )
    client.send(encode.subscribe(("plain", 0), packet_id=2))
    client.send(encode.unsubscribe("s/#", packet_id=3), encode.PINGREQ)
    client.send(encode.publish("t", qos=1, packet_id=9))
    kinds = [type(one).__name__ for one in client.take()]
    assert kinds == ["PingRespPacket", "PubAckPacket"]
    harness.answer_waiting()
    answers = client.take()
    assert [(type(one).__name__, one.packet_id) for one in answers] == [
        ("SubAckPacket", 1),
        ("SubAckPacket", 2),
        ("UnsubAckPacket", 3),
    ]
    assert int(answers[2].reason_codes[0]) == 0
    client.send(about(1))
    assert client.messages() == []


def test_a_client_that_leaves_before_the_answer_has_no_subscription(
    harness: Harness, client: Client
) -> None:
    harness.held = (Resolve,)
    client.send(encode.subscribe(("s/#", 0), properties=encode.user("neighborhood", "near")))
    client.lose()
    harness.answer_waiting()
    assert harness.core.index.count == 0
    assert harness.forgotten == [1]


def test_too_many_waiting_subscribes_are_refused_at_once() -> None:
    harness = Harness(limits=BrokerLimits(waiting_subscribes=2))
    harness.neighborhoods = {"near": [1]}
    harness.held = (Resolve,)
    client = harness.connect("c")
    client.take()
    near = encode.user("neighborhood", "near")
    for number in (1, 2, 3):
        client.send(encode.subscribe(("s/#", 0), packet_id=number, properties=near))
    (refused,) = client.take()
    assert (refused.packet_id, int(refused.reason_codes[0])) == (3, 0x97)
    (unsuback,) = client.send(encode.unsubscribe("s/#", packet_id=4))
    assert int(unsuback.reason_codes[0]) == 0x83


def test_subscribing_again_keeps_what_waits(harness: Harness) -> None:
    expiry = b"\x11\x00\x00\x00\x3c"
    publisher = harness.connect("p")
    client = harness.connect("c", properties=expiry + b"\x21\x00\x01")
    client.subscribe_near("s/#", "near", nsid=1, options=1)
    client.subscribe("plain", 1)
    client.take()
    publisher.send(about(1, qos=1, packet_id=1), about(2, qos=1, packet_id=2))
    publisher.send(encode.publish("plain", b"p", qos=1, packet_id=3))
    client.lose()
    again = harness.connect("c", flags=0, properties=expiry)
    again.subscribe_near("s/#", "near", nsid=1, options=1)
    again.subscribe("plain", 1)
    assert [one.topic for one in again.messages()] == ["s/t", "s/t", "plain"]


def test_after_unsuback_nothing_comes_of_what_waited(harness: Harness) -> None:
    publisher = harness.connect("p")
    client = harness.connect("c", properties=b"\x21\x00\x01")
    client.subscribe_near("s/#", "near", nsid=1, options=1)
    client.subscribe("plain", 1)
    publisher.send(encode.publish("plain", b"p", qos=1, packet_id=3))
    publisher.send(about(1, qos=1, packet_id=1))
    client.send(encode.unsubscribe("s/#"))
    (first,) = client.messages()
    assert client.send(encode.ack(0x40, first.packet_id)) == []
    assert harness.core.counters.drops[Drop.UNSUBSCRIBED] == 1
