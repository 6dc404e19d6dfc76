"""A neighborhood never widens what a client may read, and rights hold until a packet is out."""

from __future__ import annotations

import pytest

from broker.core.counters import Drop
from broker.core.requests import Resolve
from broker.core.verdicts import Action
from tests.broker_core import encode
from tests.broker_core.access_rules import EXPIRY, Rules
from tests.broker_core.harness import Harness

NEAR = encode.user("peid", "1")


@pytest.fixture(params=[False, True], ids=["at once", "later"])
def rules(request: pytest.FixtureRequest) -> Rules:
    rules = Rules()
    rules.is_slow = request.param
    return rules


@pytest.fixture
def harness(rules: Rules) -> Harness:
    harness = Harness(access=rules, durable=True)
    harness.judge = lambda _client, topic, action: rules.decide(topic, action)
    harness.neighborhoods = {"near": [1]}
    return harness


@pytest.mark.parametrize("pattern", ["secret/#", "$share/g/secret/#"])
def test_a_filter_that_is_denied_is_not_even_resolved(
    pattern: str, rules: Rules, harness: Harness
) -> None:
    rules.denied = {(Action.SUBSCRIBE, "secret/#")}
    harness.held = (Resolve,)
    client = harness.connect("c")
    (code,) = client.subscribe_near(pattern, "near").reason_codes
    assert int(code) == 0x87
    assert harness.waiting == []
    assert harness.core.index.count == harness.core.index.shared_count == 0
    assert len(harness.core.neighborhoods.slots_by_sub_id) == 0


@pytest.mark.parametrize("pattern", ["#", "$share/g/#"])
def test_inside_the_neighborhood_and_yet_not_to_be_read(
    pattern: str, rules: Rules, harness: Harness
) -> None:
    rules.denied = {(Action.RECEIVE, "secret")}
    publisher, client = harness.connect("p"), harness.connect("c")
    publisher.send(encode.publish("secret", b"kept", properties=NEAR, retain=True))
    publisher.send(encode.publish("open", b"kept", properties=NEAR, retain=True))
    client.subscribe_near(pattern, "near", nsid=1, options=1)
    harness.advance(1)
    for _ in range(2):
        for qos in (0, 1):
            for topic in ("secret", "open"):
                publisher.send(
                    encode.publish(topic, b"live", properties=NEAR, qos=qos, packet_id=1)
                    if qos
                    else encode.publish(topic, b"live", properties=NEAR)
                )
    received = client.messages()
    assert {one.topic for one in received} == {"open"}
    assert [one.payload for one in received].count(b"live") == 4
    assert harness.core.counters.drops[Drop.NOT_ALLOWED] >= 4


def test_a_right_that_goes_while_a_packet_waits_for_the_journal(
    rules: Rules, harness: Harness
) -> None:
    """QoS 2 to a session that is kept goes out once it is stored, which may take seconds."""
    publisher = harness.connect("p")
    client = harness.connect("c", properties=EXPIRY + b"\x21\x00\x02")
    client.subscribe("#", 2)
    client.take()
    harness.stores = False
    for number, topic in enumerate(("secret", "open", "secret"), start=1):
        publisher.send(encode.publish(topic, b"%d" % number, qos=2, packet_id=number))
    rules.denied = {(Action.RECEIVE, "secret")}
    harness.core.access_changed()
    harness.settle()
    assert client.messages() == []
    harness.stores = True
    harness.store()
    (only,) = client.messages()
    assert (only.topic, only.payload) == ("open", b"2")
    assert harness.core.counters.drops[Drop.NOT_ALLOWED] == 2
    # Both places of the client's receive maximum are free again, but for the one that came.
    client.send(encode.ack(0x50, only.packet_id), encode.ack(0x70, only.packet_id))
    for number in (4, 5):
        publisher.send(encode.publish("open", b"%d" % number, qos=2, packet_id=number))
    assert [one.payload for one in client.messages()] == [b"4", b"5"]
    session = harness.core.sessions.find("c")
    assert session is not None
    assert len(session.outgoing.identified) == 2


def test_a_right_that_is_asked_for_again_and_still_there_loses_nothing(
    rules: Rules, harness: Harness
) -> None:
    publisher = harness.connect("p")
    client = harness.connect("c", properties=EXPIRY)
    client.subscribe("#", 2)
    client.take()
    harness.stores = False
    for number in (1, 2, 3):
        publisher.send(encode.publish("open", b"%d" % number, qos=2, packet_id=number))
    assert rules.asked
    harness.core.access_changed()
    harness.stores = True
    harness.store()
    assert [one.payload for one in client.messages()] == [b"1", b"2", b"3"]
