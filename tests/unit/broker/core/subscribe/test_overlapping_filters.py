"""Many matching filters of one session: linear work, given up in turns, one copy."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from broker.core.publish import router
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

TOPIC = "a/a/a/a/a/a/a/a"
READ_BYTES = 262_144


def overlapping(levels: int) -> list[str]:
    """All filters of so many levels that match the topic: two to the power of it."""
    rest = "/a" * (8 - levels)
    return ["/".join(names) + rest for names in product("a+", repeat=levels)]


def subscribed(levels: int, qos: int = 1, **options: Any) -> tuple[Harness, Client]:
    """A client that holds all of them, each with an identifier of its own."""
    harness = Harness(**options)
    reader = harness.connect("r", flags=0, properties=b"\x11\x00\x00\x0e\x10")
    for number, pattern in enumerate(overlapping(levels), start=1):
        reader.subscribe(pattern, qos, properties=b"\x0b" + encode.varint(number))
    reader.take()
    return harness, reader


@pytest.mark.parametrize("qos", [0, 1])
def test_one_copy_with_the_identifiers_of_all(qos: int) -> None:
    harness, reader = subscribed(6)
    writer = harness.connect("w")
    writer.send(encode.publish(TOPIC, b"x", qos=qos, packet_id=1 if qos else None))
    (message,) = reader.messages()
    assert sorted(message.subscription_ids) == list(range(1, 65))
    assert int(message.qos) == qos


def copied_references(monkeypatch: pytest.MonkeyPatch, levels: int) -> int:
    """How many references a publish copies into tuples and lists, for 2 ** levels filters."""
    harness, reader = subscribed(levels)
    writer = harness.connect("w")
    sizes: list[int] = []
    real = router._add

    def counting(targets: Any, several: Any, *rest: Any) -> None:
        before = {id(one) for one in (*targets.values(), *several.values())}
        real(targets, several, *rest)
        now = (*targets.values(), *several.values())
        sizes.extend(len(one) for one in now if id(one) not in before)

    monkeypatch.setattr(router, "_add", counting)
    writer.send(encode.publish(TOPIC, b"x", qos=1, packet_id=1))
    assert len(reader.messages()) == 1
    return sum(sizes)


def test_references_are_copied_a_constant_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further match copied all before it: 4,095 filters made 8 million references."""
    assert copied_references(monkeypatch, 7) <= 4 * 128


def test_other_clients_are_served_between_two_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that costs much is worked off a piece at a time, in order, and wholly."""
    monkeypatch.setattr("broker.core.sessions.intake.WORK_AT_ONCE", 1_000)
    harness, reader = subscribed(7)
    writer, other = harness.connect("w"), harness.connect("o")
    other.take()
    harness.core.receive(
        writer.connection,
        b"".join(encode.publish(TOPIC, b"%d" % number, qos=1, packet_id=number + 1)
                 for number in range(10)),
    )  # fmt: skip
    harness.settle()
    first = len(reader.messages())
    assert 0 < first < 10
    assert writer.connection.is_blocked
    assert other.send(encode.PINGREQ), "others are served before the rest"
    harness.advance(0)
    rest = [message.payload for message in reader.messages()]
    assert rest == [b"%d" % number for number in range(first, 10)]
    assert not writer.connection.is_blocked
    assert writer.connection in harness.unblocked
    assert harness.core.counters.turns_given_up > 0


def test_a_fan_out_of_plain_packets_gives_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.core.sessions.intake.WORK_AT_ONCE", 100)
    harness = Harness()
    readers = [harness.connect(f"r{number}") for number in range(30)]
    for one in readers:
        one.subscribe("t")
        one.take()
    writer = harness.connect("w")
    writer.send(encode.publish("t", b"first"))
    harness.core.receive(writer.connection, encode.publish("t", b"x") * 50)
    harness.settle()
    assert len(readers[0].messages()) < 20
    harness.advance(0)
    assert len(readers[0].messages()) > 30
    assert [len(one.messages()) for one in readers[1:]] == [51] * 29
    assert harness.core.counters.publishes_received == 51


def test_a_read_that_gave_way_is_dropped_with_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.core.sessions.intake.WORK_AT_ONCE", 1)
    harness, reader = subscribed(2)
    writer = harness.connect("w")
    packets = [encode.publish(TOPIC, b"x", qos=1, packet_id=number) for number in (1, 2, 3)]
    harness.core.receive(writer.connection, b"".join(packets))
    writer.lose()
    harness.advance(1)
    assert len(reader.messages()) == 1


def test_long_new_topics_in_one_read_give_way() -> None:
    harness = Harness()
    writer, other = harness.connect("w"), harness.connect("o")
    sent = b"".join(encode.publish(f"{number}{'t' * 60_000}", b"") for number in range(60))
    # As a socket gives them, several reads in one turn of the event loop.
    reads = [sent[start : start + READ_BYTES] for start in range(0, len(sent), READ_BYTES)]
    counters = harness.core.counters
    for read in reads:
        harness.core.receive(writer.connection, read)
    assert writer.connection.is_blocked
    assert counters.publishes_received < 10
    assert other.send(encode.PINGREQ), "others are served before the rest"
    harness.advance(0)
    assert not writer.connection.is_blocked
    assert counters.publishes_received == 60
    assert counters.turns_given_up > 10
    # The same topics again are known, and cost nothing beyond their bytes.
    for read in reads:
        harness.core.receive(writer.connection, read)
    assert not writer.connection.is_blocked


def test_filters_that_nearly_match_count_as_work() -> None:
    """A topic that no filter matches can lead through thousands of levels all the same."""
    harness = Harness()
    reader, writer = harness.connect("r"), harness.connect("w")
    for pattern in overlapping(8):
        reader.subscribe(f"{pattern}/end")
    levels = 2**9 - 1
    before = harness.core.counters.work
    writer.send(encode.publish(f"{TOPIC}/other", b"x"))
    assert harness.core.counters.work - before >= levels
    before = harness.core.counters.work
    writer.send(encode.publish("b/b/b/b", b"x"))
    assert harness.core.counters.work - before < 100


def test_no_message_is_lost_where_a_fan_out_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighborhood of a client that takes no plain copy comes after much work in one read."""
    monkeypatch.setattr("broker.core.sessions.intake.WORK_AT_ONCE", 50)
    harness = Harness()
    harness.neighborhoods["N"] = [7]
    readers = [harness.connect(f"r{number}") for number in range(30)]
    for one in readers:
        one.subscribe("t")
    limited = harness.connect("n", properties=b"\x27\x00\x00\x10\x00")
    limited.subscribe_near("n", "N")
    limited.take()
    writer = harness.connect("w")
    near = encode.publish("n", b"x", properties=encode.user("peid", "7"))
    writer.send(encode.publish("t"), near)
    harness.core.receive(writer.connection, encode.publish("t") * 2 + near * 5)
    harness.settle()
    harness.advance(0)
    assert len(limited.messages()) == 6


@pytest.mark.parametrize("is_away", [True, False])
@pytest.mark.parametrize("readers", [1, 30])
def test_a_read_of_qos_1_gives_way(
    monkeypatch: pytest.MonkeyPatch, readers: int, *, is_away: bool
) -> None:
    """A copy that is kept costs more than one that is written and forgotten."""
    monkeypatch.setattr("broker.core.sessions.intake.WORK_AT_ONCE", 2_000)
    harness = Harness()
    clients = [
        harness.connect(f"r{number}", flags=0, properties=b"\x11\x00\x00\x0e\x10")
        for number in range(readers)
    ]
    for one in clients:
        one.subscribe("t", 1)
        one.take()
        if is_away:
            one.lose()
    writer = harness.connect("w")
    writer.send(encode.publish("t", b"first", qos=1, packet_id=1))
    packets = [encode.publish("t", b"x", qos=1, packet_id=number) for number in range(1, 801)]
    harness.core.receive(writer.connection, b"".join(packets))
    harness.settle()
    copies = harness.core.counters.publishes_received * readers
    assert readers < copies < 1_000
    assert writer.connection.is_blocked
    while writer.connection.is_blocked:
        harness.advance(0)
    assert harness.core.counters.publishes_received == 801


def test_copies_of_qos_0_that_are_not_plain_count_as_what_they_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.core.sessions.intake.WORK_AT_ONCE", 2_000)
    harness = Harness()
    for number in range(30):
        # Each topic may get an alias.
        reader = harness.connect(f"r{number}", properties=b"\x22\x00\x05")
        reader.subscribe("t")
    writer = harness.connect("w")
    writer.send(encode.publish("t", b"first"))
    harness.core.receive(writer.connection, encode.publish("t", b"x") * 100)
    assert 1 < harness.core.counters.publishes_received < 25
    while writer.connection.is_blocked:
        harness.advance(0)
    assert harness.core.counters.publishes_received == 101
