"""What a publisher cannot say: which subscriptions matched, and another entity than its topic's."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from broker.codec.gateway_rules import GatewayRules
from broker.core.counters import Drop
from broker.core.message import Message
from broker.durability.records.message_bytes import message_from_bytes, message_to_bytes
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

FORGED = encode.user("nsid", "99")
EXPIRY = b"\x02\x00\x00\x00\x3c"
KEPT = b"\x11\x00\x00\x00\x64"
REFUSED = 0x83


def names(packet: Any) -> list[tuple[str, str]]:
    return list(packet.user_properties)


def scene(**options: Any) -> tuple[Harness, Client, Client]:
    """A harness, a publisher, and a client with a plain filter and neighborhood 7."""
    harness = Harness(gateway=GatewayRules(["at/{peid}"]), **options)
    harness.neighborhoods = {"near": [1, 2, 3]}
    client = harness.connect("c", properties=KEPT)
    client.subscribe("#", 2)
    client.subscribe_near("#", "near", nsid=7, options=2)
    client.take()
    return harness, harness.connect("p"), client


# Alone, first, last, twice, with an expiry behind it, and beside a peid.
PLACES = {
    "alone": (FORGED, b""),
    "first": (FORGED + encode.user("a", "b"), encode.user("a", "b")),
    "last": (encode.user("a", "b") + FORGED, encode.user("a", "b")),
    "twice": (FORGED + encode.user("a", "b") + FORGED, encode.user("a", "b")),
    "before an expiry": (FORGED + EXPIRY, EXPIRY),
    "after an expiry": (EXPIRY + FORGED, EXPIRY),
    "another name": (encode.user("nsidx", "1") + FORGED, encode.user("nsidx", "1")),
    "an empty value": (encode.user("nsid", ""), b""),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_an_nsid_of_a_publisher_is_removed(place: str, qos: int, retain: bool) -> None:
    sent, kept = PLACES[place]
    _harness, publisher, client = scene()
    for topic in ("t", "t", "at/9"):
        # The second finds the route of the first.
        packet_id = None if not qos else 1 + len(client.packets)
        publisher.send(
            encode.publish(
                topic, b"x", qos=qos, packet_id=packet_id, retain=retain, properties=sent
            )
        )
    expected, _ = mqtt5.read(memoryview(encode.publish("t", b"x", properties=kept)))
    messages = client.messages()
    assert len(messages) == 3
    # The topic of the last one names the entity, which its receiver is told.
    named = [] if any(name == "peid" for name, _ in names(expected)) else [("peid", "9")]
    assert names(messages[-1]) == names(expected) + named
    for one in messages[:-1]:
        assert names(one) == names(expected)
    for one in messages:
        assert one.message_expiry_interval == expected.message_expiry_interval


def test_only_the_nsid_of_the_broker_comes_with_a_match() -> None:
    _harness, publisher, client = scene()
    peid = encode.user("peid", "2")
    publisher.send(*[encode.publish("t", b"x", properties=FORGED + peid + FORGED)] * 2)
    assert [names(one) for one in client.messages()] == [[("nsid", "7"), ("peid", "2")]] * 2


def test_it_is_removed_from_what_is_retained() -> None:
    harness, publisher, _client = scene()
    publisher.send(encode.publish("t", b"x", retain=True, properties=FORGED + EXPIRY))
    late = harness.connect("late")
    late.subscribe("t")
    (message,) = late.messages()
    assert names(message) == []
    assert message.message_expiry_interval == 60


def test_it_is_removed_from_what_waits_in_a_queue() -> None:
    harness, publisher, client = scene()
    client.lose()
    publisher.send(
        encode.publish("t", b"x", qos=1, packet_id=1, properties=FORGED + encode.user("peid", "1"))
    )
    (message,) = harness.connect("c", flags=0, properties=KEPT).messages()
    assert names(message) == [("nsid", "7"), ("peid", "1")]


def test_it_is_removed_from_a_will() -> None:
    harness, _publisher, client = scene()
    will = encode.will("t", b"gone", b"\x18\x00\x00\x00\x00" + FORGED + encode.user("peid", "3"))
    harness.connect("w", flags=0x06, rest=will).lose()
    (message,) = client.messages()
    assert names(message) == [("nsid", "7"), ("peid", "3")]


def test_it_is_removed_from_what_an_older_release_stored() -> None:
    properties = FORGED + EXPIRY + encode.user("a", "b")
    stored = message_to_bytes(
        Message("t", b"x", properties=properties, expires_at=9.0, expiry_offset=len(FORGED) + 1)
    )
    message = message_from_bytes(stored)
    assert message.properties == EXPIRY + encode.user("a", "b")
    assert message.properties_at(4.0) == b"\x02\x00\x00\x00\x05" + encode.user("a", "b")


@pytest.mark.parametrize("second", ["1", "2"])
def test_more_than_one_peid_goes_to_nobody(second: str) -> None:
    harness, publisher, client = scene()
    twice = encode.user("peid", "1") + encode.user("peid", second)
    publisher.send(encode.publish("t", b"x", properties=twice))
    assert harness.core.counters.drops[Drop.BAD_PEID] == 1
    for qos in (1, 2):
        (answer,) = publisher.send(
            encode.publish("t", b"x", qos=qos, packet_id=qos, properties=twice)
        )
        assert (answer.reason_code, "more than one peid" in answer.reason_str) == (REFUSED, True)
    assert client.messages() == []
    will = harness.connect("w", flags=0x06, rest=encode.will("t", b"x", twice))
    assert will.packets[0].reason_code == REFUSED


def about(peid: str, qos: int = 0, topic: str = "at/2") -> bytes:
    packet_id = qos or None
    return encode.publish(
        topic, b"x", qos=qos, packet_id=packet_id, properties=encode.user("peid", peid)
    )


def test_a_peid_against_the_gateway_rule_goes_to_nobody() -> None:
    harness, publisher, client = scene()
    publisher.send(about("2"))
    # The topic is known by now: this one would take the fast path.
    publisher.send(about("3"), about("2"))
    assert [names(one) for one in client.messages()] == [[("nsid", "7"), ("peid", "2")]] * 2
    assert harness.core.counters.drops == {Drop.PEID_MISMATCH: 1}
    for qos in (1, 2):
        (answer,) = publisher.send(about("3", qos))
        assert answer.reason_code == REFUSED
        assert answer.reason_str == "the topic is about entity 2, the peid property says 3"
    publisher.send(
        encode.publish("at/2", b"kept", retain=True, properties=encode.user("peid", "1"))
    )
    assert harness.core.retained.find("at/2") is None
    assert client.messages() == []


def test_the_same_entity_in_other_digits_is_no_contradiction() -> None:
    _harness, publisher, client = scene()
    publisher.send(about("002"), about("002"), about("9", topic="at/x"))
    assert len(client.messages()) == 3


@pytest.mark.parametrize(("peid", "code"), [("2", 0), ("3", REFUSED)])
def test_the_will_of_a_gateway_topic(peid: str, code: int) -> None:
    harness, _publisher, client = scene()
    will = harness.connect(
        "w", flags=0x06, rest=encode.will("at/2", b"x", encode.user("peid", peid))
    )
    assert will.packets[0].reason_code == code
    if not code:
        will.lose()
    assert len(client.messages()) == (not code)
