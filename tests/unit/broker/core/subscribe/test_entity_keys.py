"""Gateway rules with keys: asked once, together, beside the loop, and again after a switch."""

from __future__ import annotations

import pytest

from broker.codec.gateway_rules import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from broker.core.requests import FindKeys
from broker.core.verdicts import Action, Identity
from tests.broker_core import encode, mqtt3
from tests.broker_core.harness import Client, Harness
from tests.broker_core.mqtt3 import Acknowledged

RULE = "sensor/{key}/+"


def scene(**options: object) -> tuple[Harness, Client, Client]:
    """A harness that knows two keys, a client of MQTT 3, and one near the entity of the first."""
    harness = Harness(gateway=GatewayRules([RULE]), **options)
    harness.keys = {"way/123#2": 5, "lot": 6}
    harness.neighborhoods = {"near": [5]}
    near = harness.connect("near")
    near.subscribe_near("sensor/#", "near", nsid=1, options=1)
    near.take()
    publisher = harness.connect_3("p")
    publisher.take()
    return harness, publisher, near


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_topic_names_the_entity_by_its_key(qos: int) -> None:
    harness, publisher, near = scene()
    for key in ("way%2F123%232", "lot", "way%2F123%232", "nowhere"):
        publisher.send(mqtt3.publish(f"sensor/{key}/t", b"v", qos=qos, packet_id=qos or None))
        publisher.send(encode.ack(0x62, 2))
    messages = near.messages()
    assert [one.topic for one in messages] == ["sensor/way%2F123%232/t"] * 2
    assert {tuple(one.user_properties) for one in messages} == {(("nsid", "1"), ("peid", "5"))}
    # Each was asked for once, and other topics with the key are not asked for again.
    assert harness.asked_keys == [("way/123#2",), ("lot",), ("nowhere",)]
    publisher.send(mqtt3.publish("sensor/lot/u", b"v"))
    assert len(harness.asked_keys) == 3


def test_one_question_for_all_that_came_together() -> None:
    harness, publisher, near = scene()
    stream = [mqtt3.publish(f"sensor/{n}/t", b"v") for n in range(50)]
    publisher.send(b"".join([*stream, mqtt3.publish("sensor/way%2F123%232/t", b"last")]))
    assert len(harness.asked_keys) == 1
    assert len(harness.asked_keys[0]) == 51
    assert [one.payload for one in near.messages()] == [b"last"]


def test_others_are_served_while_the_answer_is_not_there() -> None:
    harness, publisher, near = scene()
    harness.held = (FindKeys,)
    publisher.send(mqtt3.publish("sensor/way%2F123%232/t", b"1"), mqtt3.publish("x", b"2"))
    assert publisher.connection.is_blocked
    harness.connect("q").send(
        encode.publish("sensor/way%2F123%232/t/u", b"no rule", properties=encode.user("peid", "5"))
    )
    assert [one.payload for one in near.messages()] == [b"no rule"]
    harness.held = ()
    harness.answer_waiting()
    assert not publisher.connection.is_blocked
    assert [one.payload for one in near.messages()] == [b"1"]


def test_a_key_that_no_entity_has_is_asked_for_again_after_a_switch() -> None:
    harness, publisher, near = scene()
    plain = harness.connect("plain")
    plain.subscribe("sensor/new/#")
    plain.take()
    packet = mqtt3.publish("sensor/new/t", b"v")
    publisher.send(packet, packet)
    assert [one.user_properties for one in plain.messages()] == [[], []]
    harness.keys["new"] = 5
    publisher.send(packet)
    assert near.messages() == []
    assert harness.asked_keys == [("new",)]
    harness.core.neighborhoods.members_changed()
    publisher.send(packet)
    assert len(near.messages()) == 1
    assert plain.messages()[-1].user_properties == [("peid", "5")]
    # What was found stays right in all versions.
    harness.core.neighborhoods.members_changed()
    publisher.send(packet)
    assert harness.asked_keys == [("new",)] * 2


@pytest.mark.parametrize(("key", "peid"), [("lot", "5"), ("nowhere", "5")])
def test_a_peid_property_cannot_contradict_the_key(key: str, peid: str) -> None:
    harness, _publisher, near = scene()
    liar = harness.connect("liar")
    liar.take()
    properties = encode.user("peid", peid)
    for _ in range(2):
        packet = encode.publish(f"sensor/{key}/t", qos=1, packet_id=1, properties=properties)
        (answer,) = liar.send(packet)
        assert int(answer.reason_code) == 0x83
        assert "peid property says 5" in answer.reason_str
        liar.send(encode.publish(f"sensor/{key}/t", properties=properties))
    assert near.messages() == []
    assert harness.core.counters.drops[Drop.PEID_MISMATCH] == 2


def test_no_answer_refuses_what_waits_and_nothing_else() -> None:
    harness, publisher, near = scene()
    harness.key_error = "the process ends"
    new = harness.connect("n")
    new.take()
    (answer,) = new.send(encode.publish("sensor/lot/t", qos=1, packet_id=1))
    assert "cannot be looked up" in answer.reason_str
    new.send(encode.publish("sensor/lot/t"))
    assert harness.core.counters.drops[Drop.NO_MEMBERSHIPS] == 1
    # An old client is not told that its message is refused: it sends it again.
    assert publisher.send(mqtt3.publish("sensor/lot/t", qos=1, packet_id=1)) == []
    assert publisher.is_closed
    harness.key_error = None
    again = harness.connect_3("p")
    again.take()
    packet = mqtt3.publish("sensor/way%2F123%232/t", b"v", qos=1, packet_id=1, duplicate=True)
    assert again.send(packet) == [Acknowledged(0x40, 1)]
    assert len(near.messages()) == 1


def test_an_alias_may_stand_for_a_topic_with_a_key() -> None:
    harness, _publisher, near = scene()
    client = harness.connect("alias")
    alias = b"\x23\x00\x01"
    harness.held = (FindKeys,)
    client.send(encode.publish("sensor/way%2F123%232/t", b"1", properties=alias))
    client.send(encode.publish("", b"2", properties=alias))
    harness.held = ()
    harness.answer_waiting()
    assert [one.payload for one in near.messages()] == [b"1", b"2"]
    # The route is forgotten, and with it what was known of the topic.
    harness.core.neighborhoods.members_changed()
    harness.keys["new"] = 5
    client.send(encode.publish("sensor/new/t", b"3", properties=alias))
    client.send(encode.publish("", b"4", properties=alias))
    assert [one.payload for one in near.messages()] == [b"3", b"4"]


def test_an_alias_alone_asks_for_the_key_of_its_topic() -> None:
    harness, _publisher, near = scene(limits=BrokerLimits(cached_key_bytes=0))
    client = harness.connect("alias")
    alias = b"\x23\x00\x01"
    client.send(encode.publish("sensor/way%2F123%232/t", b"1", properties=alias))
    harness.core.access_changed()
    harness.connect_3("q").send(mqtt3.publish("sensor/lot/t"))
    client.send(encode.publish("", b"2", properties=alias))
    assert [one.payload for one in near.messages()] == [b"1", b"2"]
    assert harness.asked_keys == [("way/123#2",), ("lot",), ("way/123#2",)]


def test_who_may_not_publish_cannot_ask() -> None:
    class ReadOnly:
        def verdict(self, _client: Identity, _topic: str, action: Action) -> ReasonCode:
            is_denied = action is Action.PUBLISH
            return ReasonCode.NOT_AUTHORIZED if is_denied else ReasonCode.SUCCESS

    harness, publisher, _near = scene(access=ReadOnly())
    publisher.send(mqtt3.publish("sensor/lot/t", b"v"))
    assert harness.asked_keys == []


def test_a_will_finds_its_entity_when_it_is_sent() -> None:
    harness, _publisher, near = scene()
    rest = encode.text("sensor/way%2F123%232/gone") + encode.text("bye")
    client = harness.connect_3("w", flags=0x06, rest=rest)
    assert harness.asked_keys == []
    client.lose()
    (bye,) = near.messages()
    assert bye.user_properties == [("nsid", "1"), ("peid", "5")]


def test_what_is_remembered_has_a_limit() -> None:
    harness, publisher, _near = scene(limits=BrokerLimits(cached_key_bytes=2_000))
    for start in range(0, 100, 10):
        keys = range(start, start + 10)
        publisher.send(b"".join(mqtt3.publish(f"sensor/{key}/t") for key in keys))
    assert len(harness.asked_keys) == 10
    assert harness.core.counters.publishes_received == 100


@pytest.mark.parametrize(
    ("topic", "entity"),
    [
        ("sensor/a/t", "a"), ("sensor/7/t", "7"), ("sensor/%/t", "%"), ("sensor/a%20b/t", "a b"),
        ("sensor/%25/t", "%"), ("sensor/é/t", "é"), ("sensor//t", None), ("sensor/a", None),
        ("at/7", 7), ("at/x", None),
    ],
)  # fmt: skip
def test_what_a_topic_names(topic: str, entity: int | str | None) -> None:
    assert GatewayRules([RULE, "at/{peid}"]).entity_of(topic) == entity
