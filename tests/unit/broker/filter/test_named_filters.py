"""Named neighborhoods on the wire: as a property, and in front of a topic filter."""

from __future__ import annotations

import pytest

from broker.core.journal import SubscriptionSaved
from broker.core.verdicts import Action
from tests.broker_core import encode, mqtt3
from tests.broker_core.access_rules import EXPIRY, Rules
from tests.broker_core.harness import Client, Harness
from tests.broker_core.neighborhood_messages import about, nsids

OLD = "$neighborhood/old/s/#"


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.neighborhoods = {"@old": [1, 2, 3], "@new": [3, 4], "near": [2], "@gone": "unknown"}
    return harness


def codes(suback: object) -> list[int]:
    return [int(code) for code in suback.reason_codes]  # type: ignore[attr-defined]


def peids_of(client: Client) -> list[str]:
    return [dict(one.user_properties)["peid"] for one in client.messages()]


@pytest.mark.parametrize(
    ("pattern", "properties"),
    [(OLD, b""), ("s/#", encode.user("neighborhood", "@old"))],
    ids=["topic", "property"],
)
def test_a_name_stands_for_a_neighborhood(
    client: Client, harness: Harness, pattern: str, properties: bytes
) -> None:
    suback = client.subscribe(pattern, properties=properties)
    assert codes(suback) == [0]
    assert nsids(suback) == ["1"]
    client.send(about(2), about(4), encode.publish("s/t", b"no peid"), about(3, "other"))
    (message,) = client.messages()
    assert message.topic == "s/t"
    assert message.user_properties == [("nsid", "1"), ("peid", "2")]
    (terms,) = [one.terms for one in harness.core.neighborhoods]
    assert (terms.name, terms.descriptor) == ("old", "what old stands for")
    assert terms.topic_filter == pattern


def test_the_same_filter_again_is_the_same_subscription(client: Client, harness: Harness) -> None:
    first = client.subscribe(OLD)
    assert nsids(client.subscribe(OLD, 1)) == nsids(first)
    assert nsids(client.subscribe("$neighborhood/new/s/#")) != nsids(first)
    assert harness.core.index.count == 2
    client.send(encode.unsubscribe(OLD))
    client.send(about(1), about(4))
    assert peids_of(client) == ["4"]


def test_each_filter_of_a_packet_has_its_own_neighborhood(client: Client) -> None:
    filters = ((OLD, 0), ("plain", 0), ("$neighborhood/gone/s/#", 0), ("$neighborhood/new/s/t", 0))
    (suback,) = client.send(encode.subscribe(*filters))
    assert codes(suback) == [0, 0, 0x83, 0]
    assert suback.reason_str == "unknown"
    assert len(set(nsids(suback))) == 2
    client.send(about(1), about(3), about(4), about(9, "plain"))
    assert peids_of(client) == ["1", "3", "4", "9"]
    given = encode.user("nsid", "8") + encode.user("nsid", "9")
    (suback,) = client.send(encode.subscribe(filters[0], ("q", 0), filters[3], properties=given))
    assert nsids(suback) == ["8", "9"]


@pytest.mark.parametrize(
    "pattern",
    [
        "$neighborhood/old",
        "$neighborhood/old/",
        "$neighborhood//s",
        "$neighborhood/+/s",
        "$neighborhood/#",
        "$neighborhood/a b/s",
        f"$neighborhood/{'n' * 65}/s",
        "$neighborhood/old/s/#/t",
        "$neighborhood/old/$share/g/s",
        "$neighborhood/old/$neighborhood/old/s",
        "$share/g/$neighborhood/old",
    ],
)
def test_filters_that_name_nothing_are_refused(client: Client, pattern: str) -> None:
    suback = client.subscribe(pattern)
    assert codes(suback) == [0x8F]
    assert suback.reason_str


def test_a_name_and_a_property_exclude_each_other(client: Client, harness: Harness) -> None:
    suback = client.subscribe(OLD, properties=encode.user("neighborhood", "near"))
    assert codes(suback) == [0x8F]
    assert "leave out one of them" in suback.reason_str
    suback = client.subscribe("s/#", properties=encode.user("neighborhood", "@old town"))
    assert codes(suback) == [0x8F]
    assert "cannot name a neighborhood" in suback.reason_str
    assert harness.core.index.count == 0


def test_a_share_group_in_a_named_neighborhood(harness: Harness) -> None:
    members = [harness.connect(name) for name in ("a", "b")]
    for member in members:
        assert codes(member.subscribe("$share/g/$neighborhood/old/s/#")) == [0]
    members[0].send(about(1), about(4), about(2), about(3), about(1))
    heard = [peids_of(member) for member in members]
    assert sorted([*heard[0], *heard[1]]) == ["1", "1", "2", "3"]
    assert all(len(each) == 2 for each in heard)


def test_retained_messages_are_those_in_the_neighborhood(client: Client) -> None:
    client.send(*(about(peid, f"s/{peid}", retain=True) for peid in (1, 2, 4)))
    client.send(encode.publish("s/plain", b"no peid", retain=True))
    client.take()
    client.subscribe(OLD)
    assert sorted(peids_of(client)) == ["1", "2"]


def test_nobody_publishes_to_such_a_topic(client: Client) -> None:
    client.send(about(1, "$neighborhood/old/s/t", qos=1, packet_id=1))
    (answer,) = client.take()[-1:]
    assert int(answer.reason_code) == 0x87


def test_rights_are_those_to_the_filter_and_to_the_name() -> None:
    rules = Rules()
    harness = Harness(access=rules)
    harness.neighborhoods = {"@old": [1]}
    client = harness.connect("c")
    for denied in ((Action.SUBSCRIBE, "s/#"), (Action.USE_NEIGHBORHOOD, "old")):
        rules.denied = {denied}
        harness.core.access_changed()
        assert codes(client.subscribe(OLD)) == [0x87]
        assert codes(client.subscribe_near("s/#", "@old")) == [0x87]
    rules.denied = {(Action.SUBSCRIBE, OLD)}
    harness.core.access_changed()
    assert codes(client.subscribe(OLD)) == [0]
    assert harness.core.index.count == 1


def test_names_survive_a_restart() -> None:
    first = Harness(durable=True)
    first.neighborhoods = {"@old": [1]}
    first.connect("c", properties=EXPIRY).subscribe("$share/g/$neighborhood/old/s/#", 1)
    (saved,) = [one for one in first.records if isinstance(one, SubscriptionSaved)]
    assert saved.terms.name == "old"
    second = Harness(durable=True)
    second.core.restore(first.records)
    (restored,) = second.core.neighborhoods
    assert restored.terms == saved.terms
    assert [one.topic_filter for one in (restored.home.entry,)] == ["s/#"]  # type: ignore[union-attr]


@pytest.mark.parametrize("level", [3, 4])
def test_a_client_without_properties_names_it_in_the_filter(harness: Harness, level: int) -> None:
    old, publisher = harness.connect_3("old", level=level), harness.connect("p")
    old.take()
    filters = ((OLD, 1), ("plain", 0), ("$neighborhood/gone/s", 0))
    (suback,) = old.send(mqtt3.subscribe(*filters))
    # MQTT 3.1 has no code for a refusal.
    assert (suback.codes[:2], len(suback.codes)) == ((1, 0), 3)
    old.send(mqtt3.subscribe((OLD, 0)))
    assert harness.core.index.count == 2, "the same filter again is the same subscription"
    old.take()
    publisher.send(about(1), about(4), about(1, "plain"))
    assert [(one.topic, one.payload) for one in old.messages()] == [("s/t", b"x"), ("plain", b"x")]
    old.send(mqtt3.unsubscribe(OLD))
    old.take()
    publisher.send(about(1))
    assert old.messages() == []
