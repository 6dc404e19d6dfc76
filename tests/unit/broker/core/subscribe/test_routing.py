"""Subscription options, expiry, topic aliases, shared subscriptions and $SYS topics."""

from __future__ import annotations

from collections import Counter
from typing import Any

import mqtt5
import pytest

from broker.core.counters import Drop
from tests.broker_core import encode
from tests.broker_core.harness import Harness

NO_LOCAL = 0x04
EXPIRY = b"\x11\x00\x00\x0e\x10"


def test_no_local() -> None:
    harness = Harness()
    own, other = harness.connect("a"), harness.connect("b")
    own.subscribe("t", NO_LOCAL)
    other.subscribe("t", NO_LOCAL)
    own.send(encode.publish("t", b"x"), encode.publish("t", b"x", qos=1, packet_id=1))
    assert own.messages() == []
    assert len(other.messages()) == 2


def test_message_expiry_counts_down_in_the_queue() -> None:
    harness = Harness()
    publisher, client = harness.connect("p"), harness.connect("c", properties=EXPIRY)
    client.subscribe("t", 1)
    client.lose()
    for seconds in (1, 6):
        properties = (
            encode.user("a", "b") + b"\x02" + seconds.to_bytes(4, "big") + encode.user("c", "d")
        )
        publisher.send(encode.publish("t", b"x", properties=properties, qos=1, packet_id=1))
    publisher.send(encode.publish("t", b"y", qos=1, packet_id=1))
    harness.advance(3)
    again = harness.connect("c", flags=0, properties=EXPIRY)
    first, second = again.messages()
    assert first.message_expiry_interval == 3
    assert first.user_properties == [("a", "b"), ("c", "d")]
    assert second.message_expiry_interval is None
    assert harness.core.counters.drops[Drop.EXPIRED] == 1


def test_message_expiry_is_passed_on_unchanged_when_nothing_waits() -> None:
    client = Harness().connect("c")
    client.subscribe("t")
    client.send(encode.publish("t", b"x", properties=b"\x02\x00\x00\x00\x01"))
    assert client.messages()[0].message_expiry_interval == 1


def test_topic_aliases_of_a_client() -> None:
    client = Harness().connect("c")
    client.subscribe("#")
    alias = b"\x23\x00\x05"
    client.send(encode.publish("long/topic", b"1", properties=alias))
    client.send(encode.publish("", b"2", properties=alias + encode.user("a", "b")))
    client.send(
        encode.publish("other", b"3", properties=alias), encode.publish("", b"4", properties=alias)
    )
    found = client.messages()
    assert [one.topic for one in found] == ["long/topic"] * 2 + ["other"] * 2
    assert all(one.topic_alias is None for one in found)
    assert found[1].user_properties == [("a", "b")]


def test_topic_aliases_towards_a_client() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    client = harness.connect("c", properties=b"\x22\x00\x01" + EXPIRY)
    client.subscribe("+", 2)
    for qos in (0, 1, 2):
        publisher.send(encode.publish("t", b"x", qos=qos, packet_id=1 if qos else None))
    publisher.send(encode.publish("u", b"x"))
    found = client.messages()
    assert [(one.topic, one.topic_alias) for one in found] == [
        ("t", 1),
        ("", 1),
        ("", 1),
        ("u", None),
    ]
    client.lose()
    again = harness.connect("c", flags=0, properties=b"\x22\x00\x01")
    assert [(one.topic, one.topic_alias) for one in again.messages()] == [("t", 1), ("", 1)]


def test_an_alias_never_makes_a_packet_too_large() -> None:
    harness = Harness()
    packet = encode.publish("topic", b"x" * 20)
    client = harness.connect("c", properties=b"\x22\x00\x01\x27" + len(packet).to_bytes(4, "big"))
    client.subscribe("+")
    client.send(packet)
    (message,) = client.messages()
    assert (message.topic, message.topic_alias) == ("topic", None)


def test_a_shared_subscription_gives_each_message_to_one() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    members = [harness.connect(f"m{number}") for number in range(3)]
    for member in members:
        member.subscribe("$share/g/t/+", 1)
    alone = harness.connect("a")
    alone.subscribe("$share/other/t/+")
    for _ in range(9):
        publisher.send(encode.publish("t/x", b"x", qos=1, packet_id=1))
    assert [len(member.messages()) for member in members] == [3, 3, 3]
    assert len(alone.messages()) == 9


def test_a_shared_subscription_prefers_who_is_there() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    here, away = harness.connect("h"), harness.connect("a", properties=EXPIRY)
    for member in (here, away):
        member.subscribe("$share/g/t", 1)
    away.lose()
    for _ in range(4):
        publisher.send(encode.publish("t", b"x", qos=1, packet_id=1))
    found = here.messages()
    assert len(found) == 4
    here.send(*[encode.ack(0x40, message.packet_id) for message in found])
    here.lose()
    publisher.send(encode.publish("t", b"x", qos=1, packet_id=1))
    assert len(harness.connect("a", flags=0, properties=EXPIRY).messages()) == 1


def test_a_shared_subscription_with_neighborhoods() -> None:
    harness = Harness()
    harness.neighborhoods = {"near": [1, 2], "far": [2, 3]}
    publisher = harness.connect("p")
    near, far, plain = (harness.connect(name) for name in ("near", "far", "plain"))
    near.subscribe_near("$share/g/t", "near", nsid=1)
    near.subscribe_near("$share/g/t", "far", nsid=2)
    far.subscribe_near("$share/g/t", "far", nsid=3)
    counts: Counter[str] = Counter()
    for peid in (1, 2, 2, 3, 3) * 6:
        publisher.send(encode.publish("t", b"x", properties=encode.user("peid", str(peid))))
        for name, member in (("near", near), ("far", far)):
            for message in member.messages():
                nsids = [value for key, value in message.user_properties if key == "nsid"]
                counts[f"{name} {peid} {','.join(nsids)}"] += 1
    assert sum(counts.values()) == 30
    assert set(counts) == {"near 1 1", "near 2 1,2", "far 2 3", "near 3 2", "far 3 3"}
    assert counts["near 1 1"] == 6
    publisher.send(encode.publish("t", b"x"))
    assert near.messages() + far.messages() == []
    plain.subscribe("$share/g/t")
    publisher.send(encode.publish("t", b"x", properties=encode.user("peid", "99")))
    assert len(plain.messages()) == 1


def test_one_copy_also_for_shared_and_own_subscription_together() -> None:
    client = Harness().connect("c")
    client.subscribe("$share/g/t", 1, properties=b"\x0b\x01")
    client.subscribe("t", 0, properties=b"\x0b\x02")
    client.send(encode.publish("t", b"x", qos=1, packet_id=1))
    (message,) = client.messages()
    assert sorted(message.subscription_ids) == [1, 2]
    assert int(message.qos) == 1


def test_a_share_group_leaves_nothing_behind() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.subscribe("$share/g/t")
    client.send(encode.unsubscribe("$share/g/t"))
    client.send(encode.publish("t", b"x"))
    assert client.messages() == []
    assert (harness.core.index.count, harness.core.index.shared_count) == (0, 0)


@pytest.mark.parametrize("pattern", ["#", "+/broker/uptime", "+/#"])
def test_wildcards_at_the_start_do_not_reach_dollar_topics(pattern: str) -> None:
    harness = Harness(sys_interval=10)
    client = harness.connect("c", keep_alive=30)
    client.subscribe(pattern)
    harness.advance(11)
    client.send(encode.publish("$other/broker/uptime", b"x"))
    assert client.messages() == []


def test_sys_topics_have_mosquittos_names() -> None:
    harness = Harness(sys_interval=10, version="1.2.3")
    client = harness.connect("c", keep_alive=30)
    client.subscribe("$SYS/broker/#")
    assert [(one.topic, one.payload) for one in client.messages()] == [
        ("$SYS/broker/version", b"spaps version 1.2.3")
    ]
    harness.advance(10)
    found = {one.topic: one.payload for one in client.messages()}
    assert found["$SYS/broker/uptime"] == b"10 seconds"
    assert found["$SYS/broker/clients/connected"] == b"1"
    assert found["$SYS/broker/subscriptions/count"] == b"1"
    assert found["$SYS/broker/retained messages/count"] == b"0"
    for window in ("1min", "5min", "15min"):
        assert float(found[f"$SYS/broker/load/messages/received/{window}"]) > 0


def test_sys_counts_every_packet_to_clients() -> None:
    harness = Harness(sys_interval=10)
    watcher, client = harness.connect("w"), harness.connect("c")
    watcher.subscribe("$SYS/broker/messages/sent")
    client.subscribe("t", 2)
    client.send(encode.publish("t", b"x"), encode.publish("t", b"x", qos=1, packet_id=1))
    client.send(encode.publish("t", b"x", qos=2, packet_id=2), encode.ack(0x62, 2))
    client.send(encode.packet(0xC0, b""))
    sent = sum(len(one.packets) for one in (watcher, client))
    harness.advance(10)
    assert [int(one.payload) for one in watcher.messages()] == [sent]


def test_clients_cannot_publish_to_sys() -> None:
    client = Harness().connect("c")
    client.subscribe("$SYS/#")
    client.take()
    client.send(encode.publish("$SYS/broker/uptime", b"x"))
    (answer,) = client.send(encode.publish("$SYS/broker/uptime", b"x", qos=1, packet_id=1))
    assert int(answer.reason_code) == 0x87
    (answer,) = client.send(encode.publish("$other", b"x", qos=1, packet_id=1))
    assert int(answer.reason_code) == 0x10


def test_a_topic_with_too_many_levels_is_refused() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.subscribe("#")
    client.take()
    for levels, code in ((200, 0x00), (201, 0x90), (32_000, 0x90)):
        topic = "/".join("x" * levels)
        answers = client.send(encode.publish(topic, b"x", qos=1, packet_id=1))
        assert int(answers[-1].reason_code) == code
        client.send(encode.publish(topic, b"x"))
    assert harness.core.counters.drops[Drop.BAD_TOPIC] == 2


def test_response_topic_and_correlation_data_make_the_round_trip() -> None:
    harness = Harness()
    asks, answers = harness.connect("a"), harness.connect("b")
    asks.subscribe("answers/a")
    answers.subscribe("questions")
    properties = b"\x08" + encode.text("answers/a") + b"\x09" + encode.text(b"42")
    asks.send(encode.publish("questions", b"?", properties=properties))
    question: Any = answers.messages()[0]
    assert question.response_topic == "answers/a"
    reply = mqtt5.PublishPacket(
        question.response_topic, b"!", correlation_data=question.correlation_data
    )
    answers.send(reply.write())
    assert asks.messages()[0].correlation_data == b"42"
