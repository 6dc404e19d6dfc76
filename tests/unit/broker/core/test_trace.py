"""Traces: what is told of a client or topic, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.trace import SHOWN_PAYLOAD, TraceEvent, Watch
from broker.filter.memberships_memory import MemoryMemberships
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

EXPIRY = b"\x11\x00\x00\x0e\x10"
ALIASES = b"\x22\x00\x05"


@pytest.fixture
def harness() -> Harness:
    harness = Harness(memberships=MemoryMemberships())
    harness.neighborhoods = {"near": [1, 2], "bad": "stage 1: no"}
    return harness


def watch(
    harness: Harness, client: str | None = None, topic: str | None = None
) -> tuple[Watch, list[TraceEvent]]:
    told: list[TraceEvent] = []
    one = Watch(client, topic, told.append)
    harness.core.add_watch(one)
    return one, told


def events(told: list[TraceEvent]) -> list[str]:
    """The events so far, which are forgotten."""
    found = [one.event for one in told]
    told.clear()
    return found


def about(peid: int, topic: str = "s/t", **options: Any) -> bytes:
    return encode.publish(topic, b"x", properties=encode.user("peid", str(peid)), **options)


def test_a_client_from_connect_to_disconnect(harness: Harness) -> None:
    _, told = watch(harness, "traced")
    client, other = harness.connect("traced"), harness.connect("other")
    client.subscribe_near("s/#", "near", nsid=7)
    assert [(one.event, one.fields) for one in told] == [
        ("received SUBSCRIBE", {"bytes": 42}),
        ("sent SUBACK", {"filters": 1, "codes": {"s/#": "0x00"}}),
    ]
    told.clear()
    client.subscribe_near("s/#", "bad")
    assert told[-1].fields == {"filters": 1, "codes": {"s/#": "0x83"}, "why": "stage 1: no"}
    told.clear()
    other.send(about(1), about(9))
    (sent,) = told
    assert (sent.event, sent.client, sent.payload) == ("sent PUBLISH", "traced", b"x")
    assert (sent.fields["nsids"], sent.fields["peid"], sent.fields["topic"]) == ([7], "1", "s/t")
    told.clear()
    client.send(about(1), encode.publish("$SYS/x", b"", qos=1, packet_id=1))
    mine, received, refused = told
    assert (mine.event, received.event, refused.event) == (
        "sent PUBLISH", "received PUBLISH", "refused PUBLISH",
    )  # fmt: skip
    assert received.fields["receivers"] == 1
    assert (refused.fields["reason"], "broker's own" in refused.fields["why"]) == ("0x87", True)
    told.clear()
    client.send(encode.unsubscribe("s/#"), encode.PINGREQ, encode.DISCONNECT)
    assert events(told) == [
        "received UNSUBSCRIBE", "sent UNSUBACK", "received PINGREQ", "received DISCONNECT",
    ]  # fmt: skip


def test_messages_that_do_not_arrive(harness: Harness) -> None:
    publisher = harness.connect("p")
    client = harness.connect("away", properties=EXPIRY)
    client.subscribe("q", 1)
    client.lose()
    _, told = watch(harness, "away")
    publisher.send(encode.publish("q", b"x"), encode.publish("q", b"y" * 300, qos=1, packet_id=1))
    assert events(told) == ["not kept", "queued"]
    harness.core.counters.drops.clear()
    again = harness.connect("away", flags=0, properties=EXPIRY + b"\x27\x00\x00\x00\xc8")
    assert told[-1].event == "dropped"
    assert told[-1].fields["cause"] == "too_large"
    told.clear()
    harness.core.pause_writing(again.connection)
    publisher.send(encode.publish("q", b"x"))
    assert [(one.event, one.fields["cause"]) for one in told] == [("dropped", "slow_consumer")]


def test_a_topic_with_its_publishers_and_receivers(harness: Harness) -> None:
    publisher, near = harness.connect("p"), harness.connect("near")
    near.subscribe_near("s/+", "near", nsid=1)
    # Routes that the fast path knows already.
    publisher.send(about(1), about(1, "else"))
    near.take()
    _, told = watch(harness, topic="s/#")
    publisher.send(about(1), about(9), about(1, "else"), about(1, "s"))
    assert len(near.messages()) == 1
    assert [(one.event, one.fields["receivers"]) for one in told] == [
        ("routed PUBLISH", 1), ("received PUBLISH", 1),
        ("routed PUBLISH", 0), ("received PUBLISH", 0),
        ("routed PUBLISH", 0), ("received PUBLISH", 0),
    ]  # fmt: skip
    assert told[0].fields["clients"] == ["near"]
    assert told[1].client == "p"


def test_a_qos_1_receiver_with_its_acknowledgements(harness: Harness) -> None:
    publisher, client = harness.connect("p"), harness.connect("c")
    client.subscribe("t", 1)
    one, told = watch(harness, "c")
    publisher.send(encode.publish("t", b"x", qos=1, packet_id=1))
    client.send(encode.ack(0x40, 1))
    assert events(told) == ["sent PUBLISH", "received PUBACK"]
    harness.core.remove_watch(one)
    publisher.send(encode.publish("t", b"x", qos=1, packet_id=1))
    client.send(encode.ack(0x40, 1))
    assert told == []


def scene(harness: Harness) -> tuple[Client, list[Client]]:
    publisher = harness.connect("p")
    receivers = [
        harness.connect("a"), harness.connect("b", properties=ALIASES), harness.connect("c"),
    ]  # fmt: skip
    for number, one in enumerate(receivers):
        one.subscribe_near("s/#", "near", nsid=number)
        one.subscribe("s/+", 1)
    return publisher, receivers


@pytest.mark.parametrize("watched", [("a", None), ("p", None), (None, "s/t"), (None, "#")])
def test_every_client_gets_the_same_bytes(watched: tuple[str | None, str | None]) -> None:
    """With a trace, and without one, and after it has ended."""
    raw: list[list[bytes]] = []
    for is_traced in (False, True):
        harness = Harness(memberships=MemoryMemberships())
        harness.neighborhoods = {"near": [1, 2]}
        publisher, receivers = scene(harness)
        one, told = watch(harness, *watched) if is_traced else (None, [])
        for data in (about(1), about(2) + about(9) + about(1, "s/u"), about(1)[:9], about(1)[9:]):
            publisher.send(data)
            publisher.send(encode.publish("s/t", b"y", qos=1, packet_id=1))
        if one is not None:
            assert told
            harness.core.remove_watch(one)
            told.clear()
        publisher.send(about(1) + about(9))
        assert not told
        assert all(one.connection.session.direct is one.connection for one in receivers[::2])
        raw.append([one.raw for one in (publisher, *receivers)])
        counters = harness.core.counters
        raw[-1].append(str([counters.publishes_sent, counters.publishes_received]).encode())
    assert raw[0] == raw[1]


def test_two_watches_end_one_after_the_other(harness: Harness) -> None:
    client = harness.connect("c")
    first, told_first = watch(harness, "c")
    second, told_second = watch(harness, "c")
    harness.core.remove_watch(first)
    client.send(encode.publish("t", b"x"))
    assert (events(told_first), events(told_second)) == ([], ["received PUBLISH"])
    harness.core.remove_watch(second)
    client.send(encode.publish("t", b"x"))
    assert told_second == []


def test_long_texts_are_cut(harness: Harness) -> None:
    client = harness.connect("c")
    _, told = watch(harness, "c")
    client.send(encode.publish("t" * 5_000, b"x" * 100_000))
    assert len(told[0].fields["topic"]) == 201
    # A thousand events may wait for their reader: what they hold is no whole payload.
    assert told[0].payload == b"x" * SHOWN_PAYLOAD
    assert told[0].fields["payloadBytes"] == 100_000
