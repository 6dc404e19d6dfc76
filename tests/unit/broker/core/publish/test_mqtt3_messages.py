"""Clients of MQTT 3.1.1 and 3.1: messages between versions, refusals, subscriptions, limits."""

from __future__ import annotations

import pytest

from broker.codec.gateway_rules import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from broker.core.requests import Resolve
from broker.core.verdicts import Action, Identity
from tests.broker_core import encode, mqtt3
from tests.broker_core.encode import ack
from tests.broker_core.harness import Client, Harness
from tests.broker_core.mqtt3 import Acknowledged, Pong, Published, Suback

EXPIRY = b"\x02\x00\x00\x00\x3c"
PROPERTIES = EXPIRY + encode.user("a", "b") + b"\x03" + encode.text("text/plain")


class SomeRules:
    """Nobody may publish to ``secret`` or get ``hidden``, or subscribe to ``b``."""

    def verdict(self, _client: Identity, topic: str, action: Action) -> ReasonCode:
        denied = {
            (Action.PUBLISH, "secret"), (Action.RECEIVE, "hidden"), (Action.SUBSCRIBE, "b"),
        }  # fmt: skip
        is_denied = (action, topic) in denied
        return ReasonCode.NOT_AUTHORIZED if is_denied else ReasonCode.SUCCESS


def subscriber(harness: Harness, topic_filter: str = "#", qos: int = 2, level: int = 4) -> Client:
    client = harness.connect_3(f"sub{len(harness.clients)}", level=level)
    client.send(mqtt3.subscribe((topic_filter, qos)))
    client.take()
    return client


@pytest.mark.parametrize("size", [1, 200, 9_000, 40_000])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_properties_of_a_publisher_do_not_reach_it(qos: int, size: int) -> None:
    harness = Harness()
    old, older = subscriber(harness), subscriber(harness, level=3)
    new = harness.connect("new")
    new.subscribe("#", 2, properties=b"\x0b\x07")
    new.take()
    packet_id = 1 if qos else None
    payload = b"x" * size
    harness.connect("p").send(
        encode.publish("a/b", payload, qos=qos, packet_id=packet_id, properties=PROPERTIES)
    )
    expected = [Published("a/b", payload, qos, 1 if qos else 0)]
    assert old.take() == older.take() == expected
    (message,) = new.messages()
    assert (message.payload, message.subscription_ids) == (payload, [7])
    assert message.user_properties == [("a", "b")]


def test_many_receivers_of_both_versions_get_their_own_bytes() -> None:
    harness = Harness()
    old = [subscriber(harness, qos=n % 2) for n in range(4)]
    new = [harness.connect(f"n{n}") for n in range(4)]
    for number, client in enumerate(new):
        client.subscribe("#", number % 2, properties=b"\x0b" + bytes((number + 1,)))
        client.take()
    publisher = harness.connect_3("p")
    publisher.send(mqtt3.publish("t", b"0"), mqtt3.publish("t", b"1", qos=1, packet_id=5))
    assert publisher.take()[1:] == [Acknowledged(0x40, 5)]
    for number, client in enumerate(old):
        qos = number % 2
        assert client.take() == [Published("t", b"0"), Published("t", b"1", qos, qos)]
    for number, client in enumerate(new):
        assert [one.payload for one in client.packets] == [b"0", b"1"]
        assert [one.subscription_ids for one in client.messages()] == [[number + 1]] * 2


def test_the_expiry_of_a_message_still_holds_in_the_queue() -> None:
    harness = Harness()
    client = harness.connect_3("c", flags=0)
    client.send(mqtt3.subscribe(("t", 1)))
    client.lose()
    publisher = harness.connect("p")
    publisher.send(encode.publish("t", b"short", qos=1, packet_id=1, properties=EXPIRY))
    publisher.send(encode.publish("t", b"long", qos=1, packet_id=2))
    harness.advance(61)
    again = harness.connect_3("c", flags=0)
    assert again.messages() == [Published("t", b"long", 1, 1)]


def test_a_qos_2_message_from_one_end_to_the_other() -> None:
    harness = Harness()
    client, publisher = subscriber(harness, level=3), harness.connect_3("p")
    publisher.take()
    publisher.send(mqtt3.publish("t", b"x", qos=2, packet_id=7))
    publisher.send(mqtt3.publish("t", b"x", qos=2, packet_id=7, duplicate=True))
    publisher.send(ack(0x62, 7))
    assert publisher.take() == [Acknowledged(0x50, 7), Acknowledged(0x50, 7), Acknowledged(0x70, 7)]
    assert client.take() == [Published("t", b"x", 2, 1)]
    assert client.send(ack(0x50, 1), ack(0x50, 1), ack(0x70, 1)) == [Acknowledged(0x62, 1)] * 2


def test_the_repetitions_of_mqtt_3_1_alone() -> None:
    older, old = Harness().connect_3("c", level=3), Harness().connect_3("c")
    subscribe = mqtt3.subscribe(("t", 1))
    packets = [
        b"\x8a" + subscribe[1:], b"\x6a" + ack(0x62, 9)[1:], b"\xaa" + mqtt3.unsubscribe("t")[1:],
    ]  # fmt: skip
    older.take()
    assert older.send(*packets) == [Suback(1, (1,)), Acknowledged(0x70, 9), Acknowledged(0xB0, 1)]
    old.send(packets[0])
    assert old.is_closed


def test_the_retain_flag_only_for_what_was_retained() -> None:
    harness = Harness()
    early = subscriber(harness)
    publisher = harness.connect("p")
    publisher.send(encode.publish("r", b"x", retain=True, properties=PROPERTIES))
    assert early.take() == [Published("r", b"x")]
    late = harness.connect_3("late")
    late.take()
    assert late.send(mqtt3.subscribe(("r", 1))) == [
        Suback(1, (1,)), Published("r", b"x", 0, retain=True),
    ]  # fmt: skip
    # And with each SUBSCRIBE again.
    assert late.send(mqtt3.subscribe(("r", 0)))[1:] == [Published("r", b"x", 0, retain=True)]


@pytest.mark.parametrize(
    ("qos", "answer"), [(0, []), (1, [Acknowledged(0x40, 3)]), (2, [Acknowledged(0x50, 3)])]
)
def test_what_it_may_not_publish_is_acknowledged_and_counted(
    qos: int, answer: list[Acknowledged]
) -> None:
    harness = Harness(access=SomeRules())
    client = subscriber(harness)
    publisher = harness.connect_3("p")
    publisher.take()
    packet = mqtt3.publish("secret", b"x", qos=qos, packet_id=3 if qos else None)
    assert publisher.send(packet) == answer
    assert not publisher.is_closed
    assert client.take() == []
    assert harness.core.counters.drops[Drop.REFUSED] == 1
    if qos == 2:
        assert publisher.send(ack(0x62, 3)) == [Acknowledged(0x70, 3)]


def test_a_filter_it_may_not_read_fails_in_3_1_1_and_is_not_told_in_3_1() -> None:
    harness = Harness(access=SomeRules())
    old, older = harness.connect_3("c"), harness.connect_3("d", level=3)
    asked = mqtt3.subscribe(("a", 2), ("b", 2), ("c", 1))
    assert old.send(asked) == [Suback(1, (2, 0x80, 1))]
    assert older.send(asked) == [Suback(1, (2, 0, 1))]
    assert harness.core.index.count == 4


def test_messages_that_may_not_be_read_do_not_come() -> None:
    harness = Harness(access=SomeRules())
    client = subscriber(harness)
    publisher = harness.connect("p")
    for topic in ("open", "hidden", "open", "hidden"):
        publisher.send(encode.publish(topic, b"x"))
        publisher.send(encode.publish(topic, b"y", qos=1, packet_id=1))
    assert {one.topic for one in client.messages()} == {"open"}


def test_too_many_filters_are_refused_in_its_own_format() -> None:
    harness = Harness(limits=BrokerLimits(filters_per_packet=2))
    filters = [("a", 1), ("b", 1), ("c", 1)]
    names = [name for name, _ in filters]
    for level, codes in ((4, (0x80,) * 3), (3, (0,) * 3)):
        client = harness.connect_3(f"c{level}", level=level)
        assert client.send(mqtt3.subscribe(*filters)) == [Suback(1, codes)]
        assert client.send(mqtt3.unsubscribe(*names)) == [Acknowledged(0xB0, 1)]
    assert harness.core.index.count == 0


def test_unsubscribe_takes_effect_and_is_answered_alike_for_what_was_not_there() -> None:
    harness = Harness()
    client = subscriber(harness, "t")
    assert client.send(mqtt3.unsubscribe("t", "u")) == [Acknowledged(0xB0, 1)]
    harness.connect("p").send(encode.publish("t", b"x"))
    assert client.take() == [Acknowledged(0xB0, 1)]


def gateway_scene() -> tuple[Harness, Client, Client]:
    """A broker with a gateway rule, a client of MQTT 3, and one near the entities 2 and 3."""
    harness = Harness(gateway=GatewayRules(["at/{peid}/+"]))
    harness.neighborhoods = {"near": [2, 3]}
    near = harness.connect("near")
    near.subscribe_near("at/#", "near", nsid=4, options=1)
    near.take()
    return harness, harness.connect_3("p"), near


def test_a_publisher_names_its_entity_by_the_topic() -> None:
    _harness, publisher, near = gateway_scene()
    for qos in (0, 0, 1):
        for peid in (1, 2):
            packet_id = 1 if qos else None
            publisher.send(mqtt3.publish(f"at/{peid}/x", b"v", qos=qos, packet_id=packet_id))
    messages = near.messages()
    assert [one.topic for one in messages] == ["at/2/x"] * 3
    assert {tuple(one.user_properties) for one in messages} == {(("nsid", "4"), ("peid", "2"))}


def test_a_plain_subscriber_is_told_the_entity_too() -> None:
    harness, publisher, _near = gateway_scene()
    plain, old = harness.connect("plain"), subscriber(harness)
    plain.subscribe("at/#", 1)
    plain.take()
    publisher.send(mqtt3.publish("at/9/x", b"v"), mqtt3.publish("at/x/x", b"v"))
    properties = [one.user_properties for one in plain.messages()]
    assert properties == [[("peid", "9")], []]
    assert [one.topic for one in old.messages()] == ["at/9/x", "at/x/x"]


def test_its_will_and_what_it_retains_have_the_entity() -> None:
    harness, publisher, near = gateway_scene()
    publisher.send(mqtt3.publish("at/2/r", b"kept", retain=True))
    near.take()
    near.subscribe_near("at/+/r", "near", nsid=5)
    (kept,) = near.messages()
    assert kept.user_properties == [("nsid", "5"), ("peid", "2")]
    rest = encode.text("at/3/gone") + encode.text("bye")
    harness.connect_3("w", flags=0x06, rest=rest).lose()
    (bye,) = near.messages()
    assert bye.user_properties == [("nsid", "4"), ("peid", "3")]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_may_be_taken_later_is_not_acknowledged(qos: int) -> None:
    harness, publisher, near = gateway_scene()
    # The members of a neighborhood under the topic are not known yet, as after a start.
    harness.core.neighborhoods.refuse_messages_under(list(harness.core.neighborhoods))
    publisher.take()
    publisher.send(mqtt3.publish("at/2/x", b"v", qos=qos, packet_id=1))
    assert publisher.is_closed
    assert publisher.take() == []
    assert harness.core.counters.protocol_errors == 0
    harness.core.neighborhoods.refuse_messages_under([])
    again = harness.connect_3("p")
    again.send(mqtt3.publish("at/2/x", b"v", qos=qos, packet_id=1, duplicate=True))
    assert [one.payload for one in near.messages()] == [b"v"]


def test_no_receive_maximum_it_waits_instead() -> None:
    harness = Harness(durable=True, limits=BrokerLimits(receive_maximum=3))
    keeper = harness.connect("k", flags=0, properties=b"\x11\x00\x00\x0e\x10")
    keeper.subscribe("t", 1)
    keeper.lose()
    publisher = harness.connect_3("p")
    publisher.take()
    harness.stores = False
    stream = b"".join(mqtt3.publish("t", b"x", qos=1, packet_id=n) for n in range(1, 11))
    publisher.send(stream + mqtt3.publish("t", b"y") + encode.PINGREQ)
    assert publisher.take() == []
    assert publisher.connection.is_blocked
    assert not publisher.is_closed
    for _ in range(4):
        harness.store()
    answers = publisher.take()
    answers.remove(Pong())
    assert answers == [Acknowledged(0x40, n) for n in range(1, 11)]
    assert not publisher.connection.is_blocked


def test_open_qos_2_messages_are_limited_by_memory() -> None:
    harness = Harness(limits=BrokerLimits(receive_maximum=3, total_queued_bytes=130 * 2 * 10))
    publisher = harness.connect_3("p", flags=0)
    publisher.take()
    for number in range(1, 30):
        if not publisher.is_closed:
            publisher.send(mqtt3.publish("t", b"", qos=2, packet_id=number))
    answers = publisher.take()
    assert 3 < len(answers) < 20
    assert publisher.is_closed
    (session,) = harness.core.sessions
    assert len(session.incoming.received) == len(answers)


def test_a_client_that_does_not_read_loses_qos_0_and_keeps_qos_1() -> None:
    harness = Harness()
    client = subscriber(harness)
    harness.core.pause_writing(client.connection)
    publisher = harness.connect_3("p")
    for number in range(3):
        publisher.send(mqtt3.publish("t", b"0"))
        publisher.send(mqtt3.publish("t", b"%d" % number, qos=1, packet_id=1))
    assert client.take() == []
    harness.core.resume_writing(client.connection)
    harness.settle()
    assert [one.payload for one in client.messages()] == [b"0", b"1", b"2"]
    assert harness.core.counters.drops[Drop.SLOW_CONSUMER] == 3


def test_no_neighborhood_is_asked_for_by_it() -> None:
    harness = Harness()
    harness.held = (Resolve,)
    subscriber(harness, "neighborhood")
    assert harness.waiting == []
