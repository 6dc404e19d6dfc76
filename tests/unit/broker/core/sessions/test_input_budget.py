"""What connections hold of their clients' input is bounded, and who holds most goes first."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Refusal
from broker.core.limits import BrokerLimits
from broker.core.requests import Resolve
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

QUOTA_EXCEEDED = 0x97


def from_host(harness: Harness, name: str, host: str) -> Client:
    client = harness.connect(name)
    client.connection.host = host
    client.take()
    return client


def begin_packet(client: Client, size: int) -> None:
    """Send so many bytes of a PUBLISH that is longer."""
    head = b"\x30" + encode.varint(900_000)
    client.send(head + b"\x00" * (size - len(head)))


@pytest.mark.parametrize(("size", "is_closed"), [(49_999, False), (50_000, False), (50_001, True)])
def test_unfinished_packets_of_all_clients_are_bounded(size: int, is_closed: bool) -> None:
    harness = Harness(limits=BrokerLimits(input_bytes=100_000))
    first, second = from_host(harness, "a", "1.1.1.1"), from_host(harness, "b", "2.2.2.2")
    begin_packet(first, 50_000)
    begin_packet(second, size)
    assert second.is_closed == is_closed
    assert not first.is_closed
    assert harness.core.counters.refusals[Refusal.INPUT_BYTES] == is_closed
    if is_closed:
        (goodbye,) = second.take()
        assert int(goodbye.reason_code) == QUOTA_EXCEEDED
        assert goodbye.reason_str is not None
        assert harness.core._state.input_budget.bytes == 50_000


def test_who_holds_most_by_address_goes_first() -> None:
    """Many connections of one address with a little each do not push out another address."""
    harness = Harness(limits=BrokerLimits(input_bytes=100_000))
    other = from_host(harness, "other", "2.2.2.2")
    begin_packet(other, 40_000)
    many = [from_host(harness, f"m{number}", "1.1.1.1") for number in range(12)]
    for client in many:
        begin_packet(client, 10_000)
    assert not other.is_closed
    assert 6 <= sum(not one.is_closed for one in many) < 12


def test_what_is_worked_off_or_gone_does_not_count() -> None:
    harness = Harness()
    client, other = harness.connect("a"), harness.connect("b")
    budget = harness.core._state.input_budget
    whole = encode.publish("t", b"x" * 5_000)
    client.send(whole[:4_000])
    assert budget.bytes == 4_000
    client.send(whole[4_000:])
    assert (budget.bytes, len(budget)) == (0, 0)
    begin_packet(other, 1_000)
    other.lose()
    assert (budget.bytes, len(budget)) == (0, 0)


def test_topics_of_aliases_count() -> None:
    """A hundred aliases for topics of 65 kB were 6.5 MB for each connection."""
    harness = Harness(limits=BrokerLimits(input_bytes=200_000))
    client = harness.connect("c")
    client.take()
    for alias in range(1, 10):
        if client.is_closed:
            break
        topic = f"{alias}" + "x" * 60_000
        client.send(encode.publish(topic, properties=b"\x23" + alias.to_bytes(2, "big")))
    assert alias == 5, "the fourth one was too much"
    (goodbye,) = client.take()
    assert int(goodbye.reason_code) == QUOTA_EXCEEDED


def test_an_alias_that_is_used_again_counts_once() -> None:
    harness = Harness(limits=BrokerLimits(input_bytes=100_000))
    client = harness.connect("c")
    for number in range(5):
        topic = f"{number}" + "x" * 60_000
        client.send(encode.publish(topic, properties=b"\x23\x00\x01"))
    assert not client.is_closed


@pytest.mark.parametrize(("spare", "aliased"), [(-1, 1), (0, 2), (1, 2)])
def test_topics_with_an_alias_towards_a_client_are_bounded(spare: int, aliased: int) -> None:
    harness = Harness(limits=BrokerLimits(topic_alias_bytes=2 * (2 + 500) + spare))
    reader = harness.connect("r", properties=b"\x22\x00\x0a")
    reader.subscribe("#")
    reader.take()
    writer = harness.connect("w")
    for number in range(4):
        writer.send(encode.publish(f"{number}" + "x" * 499, b"x"))
    found = reader.messages()
    assert [one.topic_alias for one in found if one.topic_alias] == [*range(1, aliased + 1)]
    assert len(found) == 4


def test_subscribes_that_wait_are_bounded_by_bytes() -> None:
    harness = Harness(limits=BrokerLimits(packet_bytes=10_000))
    harness.neighborhoods["N"] = [1]
    harness.held = (Resolve,)
    client = harness.connect("c")
    client.take()
    packets = [
        encode.subscribe(
            (f"{number}" + "x" * 4_000, 0),
            packet_id=number,
            properties=encode.user("neighborhood", "N"),
        )
        for number in range(1, 6)
    ]
    answers = client.send(*packets)
    assert [one.packet_id for one in answers] == [4, 5]
    assert {int(one.reason_codes[0]) for one in answers} == {QUOTA_EXCEEDED}
    harness.held = ()
    harness.answer_waiting()
    served = [one for one in client.take() if isinstance(one, mqtt5.SubAckPacket)]
    assert [one.packet_id for one in served][-3:] == [1, 2, 3]
    client.send(encode.PINGREQ)
    assert harness.core._state.input_budget.bytes == 0


class Yes:
    def verdict(self, *_: object) -> ReasonCode:
        return ReasonCode.SUCCESS


def test_remembered_verdicts_are_bounded_by_bytes() -> None:
    limit = 2_000_000
    harness = Harness(access=Yes(), limits=BrokerLimits(verdict_bytes=limit))
    clients = [harness.connect(f"c{number}") for number in range(3)]
    for number in range(30):
        for client in clients:
            client.send(encode.publish(f"{client.connection.session}{number}" + "x" * 60_000))
    cache = harness.core._state.access
    assert 0 < cache.bytes <= limit
    held = sum(len(one.verdicts) for one in harness.core.sessions)
    allowed = sum(len(one.connection.may_publish) for one in clients)
    assert held <= limit // 120_000
    assert allowed <= held
    for client in clients:
        client.lose()
    assert cache.bytes == 0


def test_a_large_topic_behind_an_alias_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten bytes that become 60 kB for the receiver: not thousands of them at once."""
    monkeypatch.setattr("broker.core.sessions.intake.WORK_AT_ONCE", 10_000)
    harness = Harness()
    reader, writer = harness.connect("r"), harness.connect("w")
    reader.subscribe("#")
    reader.take()
    writer.send(encode.publish("x" * 60_000, b"x", properties=b"\x23\x00\x01"))
    short = encode.publish("", b"x", properties=b"\x23\x00\x01")
    harness.core.receive(writer.connection, short * 100)
    written = sum(map(len, reader.connection.out))
    assert 300_000 < written < 800_000
    harness.settle()
    harness.advance(0)
    assert len(reader.messages()) == 101
