"""Memberships that must be asked for: one question for a chunk, each publisher in order."""

from __future__ import annotations

import pytest

from broker.codec.gateway_rules import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.requests import Judge, LookUp
from broker.core.verdicts import Action, Identity
from broker.filter.memberships import SlotOwner, Slots
from spatial_udfs.entity_table import Int64s
from tests.broker_core import encode, mqtt3
from tests.broker_core.harness import Client, Harness


class AskedMemberships:
    """Like Redis with a cache: knows only what it was asked for before."""

    serves_neighborhoods = True

    def __init__(self) -> None:
        self.slot_owners: list[SlotOwner] = []
        self.reusable: list[int] = []
        self.cache: dict[int, tuple[int, ...]] = {}
        self.stored: dict[int, set[int]] = {}
        self.look_up_function = self.look_up

    def look_up(self, peid: int) -> Slots | None:
        return self.cache.get(peid)

    def add(self, slot: int, peids: Int64s, coming: Int64s | None = None) -> None:  # noqa: ARG002 - the shape
        for peid in peids.tolist():
            self.stored.setdefault(peid, set()).add(slot)
            self.cache.pop(peid, None)

    def remove(self, slot: int) -> None:
        for slots in self.stored.values():
            slots.discard(slot)

    def sweep(self, budget: int) -> bool:
        assert budget
        return False


@pytest.fixture
def harness() -> Harness:
    memberships = AskedMemberships()
    harness = Harness(memberships=memberships)
    harness.neighborhoods = {"near": [1, 2, 3]}
    harness.slots_of = lambda peid: sorted(memberships.stored.get(peid, ()))
    return harness


def about(peid: int, payload: bytes, qos: int = 0) -> bytes:
    properties = encode.user("peid", str(peid))
    packet_id = peid if qos else None
    return encode.publish("t", payload, properties=properties, qos=qos, packet_id=packet_id)


@pytest.fixture
def reader(harness: Harness) -> Client:
    reader = harness.connect("r")
    reader.subscribe_near("t", "near", nsid=1)
    reader.take()
    return reader


def test_one_question_for_all_of_a_chunk_and_the_order_is_kept(
    harness: Harness, reader: Client
) -> None:
    publisher = harness.connect("p")
    harness.held = (LookUp,)
    chunk = [about(peid, b"%d" % n, qos=n % 2) for n, peid in enumerate((1, 9, 2, 1, 7, 3))]
    chunk.insert(3, encode.publish("other", b"x"))
    publisher.send(b"".join(chunk))
    assert [request.peids for request in harness.waiting] == [(1, 9, 2, 7, 3)]
    assert publisher.connection.is_blocked
    publisher.send(about(2, b"later"))
    assert reader.messages() == []
    harness.held = ()
    harness.answer_waiting()
    assert [one.payload for one in reader.messages()] == [b"0", b"2", b"3", b"5", b"later"]
    assert not publisher.connection.is_blocked
    assert publisher.connection in harness.unblocked
    assert publisher.connection.found == {}


def test_an_answer_does_not_serve_what_came_in_after_the_question(harness: Harness) -> None:
    early, reader, publisher = (harness.connect(name) for name in "erp")
    early.subscribe_near("t", "near")
    harness.held = (LookUp,)
    publisher.send(about(2, b"before"))
    (request,) = harness.waiting
    harness.waiting = []
    reader.subscribe_near("t", "near", nsid=7)
    publisher.send(about(2, b"after"))
    # The answer was read before the second subscription was there.
    request.answer({2: (0,)}, None)
    harness.settle()
    harness.held = ()
    harness.answer_waiting()
    assert [one.payload for one in early.messages()] == [b"before", b"after"]
    assert [one.payload for one in reader.messages()] == [b"after"]


def test_an_answer_does_not_outlive_another_wait(harness: Harness) -> None:
    """A verdict comes between two packets of a chunk: slots may mean others by then."""

    class Asks:
        def verdict(self, client: Identity, topic: str, action: Action) -> ReasonCode | None:
            asked = (client.client_id, topic, action) == ("p", "later", Action.PUBLISH)
            return None if asked else ReasonCode.SUCCESS

    memberships = harness.memberships
    harness = Harness(memberships=memberships, access=Asks())
    harness.neighborhoods = {"near": [1, 2, 3], "far": [8]}
    harness.slots_of = lambda peid: sorted(memberships.stored.get(peid, ()))
    reader, publisher = harness.connect("r"), harness.connect("p")
    reader.subscribe_near("+", "near", nsid=1)
    reader.take()
    properties = encode.user("peid", "2")
    harness.held = (Judge,)
    publisher.send(about(1, b"first") + encode.publish("later", b"second", properties=properties))
    assert [one.payload for one in reader.messages()] == [b"first"]
    assert publisher.connection.is_blocked
    assert publisher.connection.found == {}
    # Made anew under another slot; the old one is somebody else's.
    reader.subscribe_near("+", "near", nsid=1)
    stranger = harness.connect("s")
    memberships.reusable = [0]
    stranger.subscribe_near("+", "far", nsid=1)
    reader.take()
    stranger.take()
    harness.held = ()
    harness.answer_waiting()
    assert [one.payload for one in reader.messages()] == [b"second"]
    assert stranger.messages() == []


def test_what_is_cached_is_not_asked_for(harness: Harness, reader: Client) -> None:
    harness.memberships.cache = {1: (0,), 9: ()}
    publisher = harness.connect("p")
    harness.held = (LookUp,)
    publisher.send(about(1, b"1") + about(9, b"9") + about(2, b"2"))
    assert [one.payload for one in reader.messages()] == [b"1"]
    assert [request.peids for request in harness.waiting] == [(2,)]


def test_topics_without_neighborhoods_ask_nothing(harness: Harness) -> None:
    client = harness.connect("c")
    client.subscribe("t")
    harness.held = (LookUp,)
    client.send(about(1, b"1"))
    assert len(client.messages()) == 1
    assert harness.waiting == []


def test_publishers_do_not_wait_for_each_other(harness: Harness, reader: Client) -> None:
    first, second = harness.connect("a"), harness.connect("b")
    harness.held = (LookUp,)
    first.send(about(1, b"first"))
    second.send(about(2, b"second"))
    harness.answer(harness.waiting.pop())
    harness.settle()
    assert [one.payload for one in reader.messages()] == [b"second"]
    harness.answer_waiting()
    assert [one.payload for one in reader.messages()] == [b"first"]


def test_a_failed_look_up_refuses_exactly_what_needed_it(harness: Harness, reader: Client) -> None:
    plain = harness.connect("plain")
    plain.subscribe("#")
    publisher = harness.connect("p")
    harness.held = (LookUp,)
    publisher.take()
    publisher.send(about(1, b"a") + encode.publish("t", b"b") + about(2, b"c", qos=1))
    (request,) = harness.waiting
    harness.waiting = []
    request.answer({}, "away")
    harness.settle()
    (puback,) = publisher.take()
    assert int(puback.reason_code) == 0x80
    assert puback.reason_str == "memberships cannot be read at present, try again later"
    assert harness.core.counters.drops[Drop.NO_MEMBERSHIPS] == 1
    assert [one.payload for one in plain.messages()] == [b"b"]
    assert reader.messages() == []
    harness.held = ()
    publisher.send(about(1, b"back"))
    assert [one.payload for one in reader.messages()] == [b"back"]


def test_a_publisher_that_is_gone_does_not_matter(harness: Harness, reader: Client) -> None:
    publisher = harness.connect("p")
    harness.held = (LookUp,)
    publisher.send(about(1, b"x"))
    publisher.lose()
    harness.answer_waiting()
    assert reader.messages() == []
    assert harness.waiting == []


def test_wills_ask_too(harness: Harness, reader: Client) -> None:
    rest = encode.will("t", b"bye", encode.user("peid", "2"))
    client = harness.connect("c", flags=0x06, rest=rest)
    harness.held = (LookUp,)
    client.lose()
    assert reader.messages() == []
    harness.answer_waiting()
    (message,) = reader.messages()
    assert message.user_properties == [("nsid", "1"), ("peid", "2")]


def test_a_broken_packet_behind_is_reported_after_what_stands_before(
    harness: Harness, reader: Client
) -> None:
    publisher = harness.connect("p")
    publisher.take()
    publisher.send(about(1, b"good") + encode.publish("a/#"))
    assert [one.payload for one in reader.messages()] == [b"good"]
    assert int(publisher.take()[0].reason_code) == 0x90


def test_an_alias_may_stand_for_a_topic_that_names_the_entity() -> None:
    memberships = AskedMemberships()
    harness = Harness(memberships=memberships, gateway=GatewayRules(["at/{peid}"]))
    harness.neighborhoods = {"near": [1, 2, 3]}
    harness.slots_of = lambda peid: sorted(memberships.stored.get(peid, ()))
    near, publisher = harness.connect("n"), harness.connect("p")
    near.subscribe_near("at/#", "near", nsid=1)
    near.take()
    alias = b"\x23\x00\x01"
    for topic in ("at/2", ""):
        publisher.send(encode.publish(topic, b"x", properties=alias))
    assert [one.topic for one in near.messages()] == ["at/2", "at/2"]


def test_clients_of_mqtt_3_wait_for_an_answer_too() -> None:
    memberships = AskedMemberships()
    harness = Harness(memberships=memberships, gateway=GatewayRules(["at/{peid}"]))
    harness.neighborhoods = {"near": [1, 2, 3]}
    harness.slots_of = lambda peid: sorted(memberships.stored.get(peid, ()))
    near, publisher = harness.connect("n"), harness.connect_3("p")
    near.subscribe_near("at/#", "near", nsid=1)
    near.take()
    harness.held = (LookUp,)
    publisher.send(b"".join(mqtt3.publish(f"at/{peid}", b"%d" % peid) for peid in (1, 9, 2, 1)))
    assert near.messages() == []
    (question,) = harness.waiting
    assert isinstance(question, LookUp)
    harness.held = ()
    harness.answer_waiting()
    assert [one.payload for one in near.messages()] == [b"1", b"2", b"1"]
