"""Neighborhoods on the wire: nsid, peid, replacement, and which messages match."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.gateway_rules import GatewayRules
from broker.core.counters import Drop
from broker.filter.memberships import NoMemberships
from schemas.errors import SettingsError
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.neighborhood_messages import about, nsids


def test_only_messages_inside_come_with_the_nsid(client: Client) -> None:
    suback = client.subscribe_near("s/#", "near", nsid=17)
    assert nsids(suback) == ["17"]
    assert [int(code) for code in suback.reason_codes] == [0]
    client.send(about(2), about(4), about(99), encode.publish("s/t", b"no peid"), about(2, "other"))
    (message,) = client.messages()
    assert message.user_properties == [("nsid", "17"), ("peid", "2")]


def test_a_client_without_an_nsid_is_given_one(client: Client) -> None:
    given = [nsids(client.subscribe_near("s/#", "near"))[0] for _ in range(3)]
    assert len(set(given)) == 3
    client.subscribe_near("s/#", "far", nsid=int(given[2]) + 1)
    assert nsids(client.subscribe_near("s/#", "near")) == [str(int(given[2]) + 2)]


def test_one_copy_with_every_nsid_that_matches_at_the_highest_qos(client: Client) -> None:
    client.subscribe_near("s/#", "near", nsid=1, options=0)
    client.subscribe_near("s/+", "far", nsid=2, options=1)
    client.subscribe_near("s/t", "none", nsid=3, options=2)
    client.subscribe("#", 0, properties=b"\x0b\x07")
    client.send(about(3, qos=2, packet_id=1))
    (message,) = client.messages()
    assert sorted(nsids(message)) == ["1", "2"]
    assert message.subscription_ids == [7]
    assert int(message.qos) == 1


def test_the_same_nsid_replaces(harness: Harness, client: Client) -> None:
    client.subscribe_near("s/#", "near", nsid=1)
    client.subscribe_near("s/t", "far", nsid=1)
    client.send(about(1), about(4))
    (message,) = client.messages()
    assert message.user_properties == [("nsid", "1"), ("peid", "4")]
    assert harness.core.index.count == 1
    assert harness.forgotten == [1]


def test_warnings_are_in_suback(harness: Harness, client: Client) -> None:
    harness.warnings = ("C AND T never holds", "ref 7 is missing")
    suback = client.subscribe_near("s/#", "none", nsid=1)
    assert suback.user_properties == [
        ("nsid", "1"),
        ("warning", "C AND T never holds"),
        ("warning", "ref 7 is missing"),
    ]


def test_a_misspelt_user_property_is_warned_about(client: Client) -> None:
    misspelt = encode.user("neighbourhood", "near") + encode.user("unit", "m")
    suback = client.subscribe("s/#", properties=misspelt)
    assert [int(code) for code in suback.reason_codes] == [0]
    assert suback.user_properties == [
        ("warning", "the user property 'neighbourhood' is ignored; did you mean 'neighborhood'?")
    ]
    right = encode.user("neighborhood", "near") + encode.user("nsId", "7")
    suback = client.subscribe("s/#", properties=right)
    (given,) = nsids(suback)
    assert suback.user_properties == [
        ("nsid", given),
        ("warning", "the user property 'nsId' is ignored; did you mean 'nsid'?"),
    ]


def test_a_misspelt_nsid_of_an_unsubscribe_is_warned_about(client: Client) -> None:
    """All neighborhoods under the filter have ended, which was hardly meant."""
    for nsid in (1, 2):
        client.subscribe_near("s/#", "near", nsid=nsid)
    (unsuback,) = client.send(encode.unsubscribe("s/#", properties=encode.user("ns-id", "2")))
    assert unsuback.user_properties == [
        ("warning", "the user property 'ns-id' is ignored; did you mean 'nsid'?")
    ]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_misspelt_peid_is_named_when_nobody_gets_the_message(client: Client, qos: int) -> None:
    properties = b"\x01\x01" + encode.user("unit", "m") + b"\x03\x00\x01x"
    meant = "no subscription matches; the user property 'peId' is ignored; did you mean 'peid'?"
    for name, said in (("peId", meant), ("place", None)):
        named = properties + encode.user(name, "1")
        data = encode.publish("s/t", b"x", qos=qos, packet_id=qos, properties=named)
        (answer,) = client.send(data)
        assert (int(answer.reason_code), answer.reason_str) == (0x10, said)
        if qos == 2:
            client.send(encode.ack(0x62, 2))


def test_several_filters_have_an_nsid_each(harness: Harness, client: Client) -> None:
    both = encode.subscribe(("a", 0), ("b", 0), properties=encode.user("neighborhood", "near"))
    (suback,) = client.send(both)
    assert len(set(nsids(suback))) == 2
    too_few = encode.user("neighborhood", "near") + encode.user("nsid", "9")
    (suback,) = client.send(encode.subscribe(("a", 0), ("b", 0), properties=too_few))
    assert [int(code) for code in suback.reason_codes] == [0x8F, 0x8F]
    assert harness.core.index.count == 2


@pytest.mark.parametrize(
    "properties",
    [
        encode.user("nsid", "5"),
        encode.user("neighborhood", "near") + encode.user("nsid", "x"),
        encode.user("neighborhood", "near") + encode.user("nsid", "-1"),
        encode.user("neighborhood", "near") + encode.user("nsid", str(2**63)),
        encode.user("neighborhood", "near") + encode.user("nsid", "٣"),
        encode.user("neighborhood", "near") * 2,
    ],
)
def test_properties_that_make_no_sense_are_refused(client: Client, properties: bytes) -> None:
    suback = client.subscribe("s/#", properties=properties)
    assert int(suback.reason_codes[0]) == 0x8F
    assert suback.reason_str
    assert not client.is_closed


def test_without_memberships_neighborhoods_are_refused() -> None:
    client = Harness(memberships=NoMemberships()).connect("c")
    suback = client.subscribe_near("s/#", "near")
    assert int(suback.reason_codes[0]) == 0x83
    assert suback.reason_str == "this broker serves no neighborhoods"


def test_unsubscribe_by_nsid_and_by_filter(harness: Harness, client: Client) -> None:
    for nsid in (1, 2, 3):
        client.subscribe_near("s/#", "near", nsid=nsid)
    client.subscribe_near("t/#", "near", nsid=4)
    client.subscribe("s/#")
    client.send(encode.unsubscribe("s/#", properties=encode.user("nsid", "2")))
    client.send(about(1))
    assert nsids(client.messages()[0]) == ["1", "3"]
    assert harness.forgotten == [2]
    (unsuback,) = client.send(encode.unsubscribe("s/#", properties=encode.user("nsid", "2")))
    assert int(unsuback.reason_codes[0]) == 0x11
    client.send(encode.unsubscribe("s/#"))
    client.send(about(1), about(1, "t/x"))
    assert [nsids(one) for one in client.messages()] == [["4"]]
    assert sorted(harness.forgotten) == [1, 2, 3]


@pytest.mark.parametrize("peid", ["", "-1", "1.5", "0x1", str(2**63), "1" * 30, " 1", "٣"])
def test_a_malformed_peid_goes_to_nobody(harness: Harness, client: Client, peid: str) -> None:
    client.subscribe("s/#")
    client.subscribe_near("s/#", "near")
    client.take()
    client.send(about(peid))
    (puback,) = client.send(about(peid, qos=1, packet_id=1))
    assert int(puback.reason_code) == 0x83
    assert "decimal integer" in puback.reason_str
    assert harness.core.counters.drops[Drop.BAD_PEID] == 1
    assert client.messages() == []


def test_a_message_about_two_entities_goes_to_nobody(harness: Harness, client: Client) -> None:
    client.subscribe("s/#")
    client.subscribe_near("s/#", "near")
    client.take()
    twice = encode.user("peid", "1") * 2
    client.send(encode.publish("s/x", b"x", properties=twice))
    (puback,) = client.send(encode.publish("s/x", b"x", properties=twice, qos=1, packet_id=1))
    assert int(puback.reason_code) == 0x83
    assert "more than one peid" in puback.reason_str
    assert harness.core.counters.drops[Drop.BAD_PEID] == 1
    assert client.messages() == []


def test_plain_and_neighborhood_subscribers_side_by_side(harness: Harness) -> None:
    plain, near, far, publisher = (harness.connect(name) for name in "pnfx")
    plain.subscribe("s/+")
    near.subscribe_near("s/+", "near")
    far.subscribe_near("s/+", "far")
    publisher.send(about(1), about(3), about(77), encode.publish("s/t", b"x"))
    assert [len(one.messages()) for one in (plain, near, far)] == [4, 2, 1]


def test_retained_messages_keep_their_peid(harness: Harness) -> None:
    publisher = harness.connect("p")
    for peid in (1, 3, 4):
        publisher.send(about(peid, f"s/{peid}", retain=True))
    publisher.send(encode.publish("s/x", b"no peid", retain=True))
    client = harness.connect("c")
    client.subscribe_near("s/#", "near", nsid=5)
    found = client.messages()
    assert sorted(one.topic for one in found) == ["s/1", "s/3"]
    assert all(nsids(one) == ["5"] and one.retain for one in found)
    client.subscribe("s/#")
    assert len(client.messages()) == 4


def test_the_packet_limit_holds_after_the_nsid_was_added(harness: Harness) -> None:
    publisher = harness.connect("p")
    added = len(encode.user("nsid", "123456789"))
    plain = about(1, payload=b"x" * 20)
    for limit, count in ((len(plain) + added, 1), (len(plain) + added - 1, 0)):
        client = harness.connect("c", properties=b"\x27" + limit.to_bytes(4, "big"))
        client.subscribe_near("s/#", "near", nsid=123_456_789)
        publisher.send(plain)
        assert len(client.messages()) == count
        client.lose()


def test_a_gateway_rule_finds_the_peid_in_the_topic() -> None:
    harness = Harness(gateway=GatewayRules(["sensor/{peid}/temperature", "+/at/{peid}"]))
    harness.neighborhoods = {"near": [1, 2, 3]}
    client = harness.connect("c")
    client.subscribe_near("#", "near")
    for topic in (
        "sensor/1/temperature",
        "car/at/3",
        "sensor/9/temperature",
        "sensor/x/temperature",
    ):
        for _ in range(2):
            client.send(encode.publish(topic, b"x"))
        client.send(encode.publish(topic, b"x", qos=1, packet_id=1))
    client.send(about(9, "sensor/1/temperature"))
    topics = [one.topic for one in client.messages()]
    assert topics == ["sensor/1/temperature"] * 3 + ["car/at/3"] * 3


@pytest.mark.parametrize("rule", ["a/b", "{peid}/{peid}", "a/x{peid}", "a/{peid}/#"])
def test_gateway_rules_that_cannot_work_are_refused(rule: str) -> None:
    with pytest.raises(SettingsError, match="gateway rule"):
        GatewayRules([rule])


def test_user_properties_are_kept_back_from_clients_that_want_no_problem_information(
    harness: Harness,
) -> None:
    client = harness.connect("c", properties=b"\x17\x00")
    suback = client.subscribe_near("s/#", "near", nsid=1)
    assert suback.user_properties == []
    assert isinstance(suback, mqtt5.SubAckPacket)
