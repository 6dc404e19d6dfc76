"""Retained messages: which subscription gets them, limits, and a reader that is slow."""

from __future__ import annotations

from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

RETAIN_AS_PUBLISHED = 0x08
IF_NEW, NEVER = 0x10, 0x20


def topics(client: Client) -> list[str]:
    return sorted(one.topic for one in client.messages())


def test_retain_as_published() -> None:
    harness = Harness()
    keeps, clears = harness.connect("a"), harness.connect("b")
    keeps.subscribe("t", RETAIN_AS_PUBLISHED)
    clears.subscribe("t")
    clears.send(encode.publish("t", b"1", retain=True), encode.publish("t", b"2"))
    assert [one.retain for one in keeps.messages()] == [True, False]
    assert [one.retain for one in clears.messages()] == [False, False]


def test_retain_handling() -> None:
    harness = Harness()
    client = harness.connect("c")
    for number, qos in enumerate((0, 1, 2), start=1):
        client.send(
            encode.publish(
                f"a/{number}", b"x", qos=qos, packet_id=number if qos else None, retain=True
            )
        )
    client.subscribe("a/+", 0x02 | IF_NEW)
    found = client.messages()
    assert sorted(int(one.qos) for one in found) == [0, 1, 2]
    assert all(one.retain for one in found)
    client.subscribe("a/+", 0x02 | IF_NEW)
    assert client.messages() == []
    client.subscribe("a/+", 0x02 | NEVER)
    assert client.messages() == []
    client.subscribe("a/+", 0x02)
    assert topics(client) == ["a/1", "a/2", "a/3"]


def test_an_empty_payload_removes_the_retained_message() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.send(encode.publish("a/b", b"x", retain=True), encode.publish("a/b", b"", retain=True))
    client.subscribe("#")
    assert client.messages() == []
    assert (harness.core.retained.count, harness.core.retained.bytes) == (0, 0)


def test_retained_messages_are_bounded() -> None:
    harness = Harness(limits=BrokerLimits(retained_messages=4, retained_bytes=4_400))
    client = harness.connect("c")
    client.subscribe("#")
    client.take()
    client.send(encode.publish("a", b"x", retain=True), encode.publish("b", b"x", retain=True))
    client.send(encode.publish("c", b"x", retain=True))
    answers = client.send(encode.publish("d", b"x", retain=True, qos=1, packet_id=1))
    assert int(answers[-1].reason_code) == 0x97
    assert harness.core.counters.drops[Drop.RETAINED_FULL] == 1
    client.send(encode.publish("a", b"y", retain=True))
    client.send(encode.publish("a", b"z" * 2_000, retain=True))
    client.send(encode.publish("b", b"", retain=True), encode.publish("e", b"x", retain=True))
    assert sorted(one.topic for one in harness.core.retained) == ["a", "e"]
    assert topics(client) == ["a", "a", "b", "b", "e"]


def test_a_large_backlog_of_retained_messages_waits_for_its_reader() -> None:
    harness = Harness()
    publisher, client = harness.connect("p"), harness.connect("c")
    for number in range(100):
        publisher.send(encode.publish(f"r/{number}", b"x" * 10_000, retain=True))
    client.take()
    harness.core.receive(client.connection, encode.subscribe(("r/#", 0)))
    harness.settle()
    first = topics(client)
    assert 0 < len(first) < 10
    harness.core.pause_writing(client.connection)
    harness.advance(10)
    assert client.messages() == []
    removed = next(f"r/{number}" for number in range(100) if f"r/{number}" not in first)
    publisher.send(encode.publish(removed, b"", retain=True))
    harness.core.resume_writing(client.connection)
    harness.advance(1)
    everything = {f"r/{number}" for number in range(100)}
    assert sorted(first + topics(client)) == sorted(everything - {removed})


def test_retained_messages_with_qos_respect_the_receive_maximum() -> None:
    harness = Harness()
    publisher = harness.connect("p")
    for number in range(5):
        publisher.send(encode.publish(f"r/{number}", b"x", retain=True, qos=1, packet_id=1))
    client = harness.connect("c", properties=b"\x21\x00\x02")
    client.subscribe("r/#", 1)
    seen: list[str] = []
    while found := client.messages():
        assert len(found) <= 2
        seen += [one.topic for one in found]
        client.send(*(encode.ack(0x40, one.packet_id) for one in found))
    assert sorted(seen) == [f"r/{number}" for number in range(5)]


def test_retained_messages_expire() -> None:
    harness = Harness()
    client = harness.connect("c", keep_alive=30)
    for _ in range(3):
        client.send(encode.publish("t", b"x", properties=b"\x02\x00\x00\x00\x05", retain=True))
        harness.advance(3)
    client.subscribe("t")
    assert client.messages()[0].message_expiry_interval == 2
    harness.advance(2)
    assert harness.core.retained.count == 0
