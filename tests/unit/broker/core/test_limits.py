"""Limits of the core at their edges: what is allowed is served, one more is not."""

from __future__ import annotations

import mqtt5
import pytest

from broker.codec.reason_codes import ReasonCode
from broker.core.counters import Drop
from broker.core.limits import BrokerLimits
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness

QUOTA_EXCEEDED = 0x97
ALIAS_INVALID = 0x94


def codes(client: Client, *patterns: str) -> list[int]:
    (suback,) = client.send(encode.subscribe(*((pattern, 0) for pattern in patterns)))
    return [int(code) for code in suback.reason_codes]


def test_subscriptions_of_one_client() -> None:
    harness = Harness(limits=BrokerLimits(subscriptions=3))
    client, other = harness.connect("c"), harness.connect("o")
    client.take()
    assert codes(client, "a", "b", "c", "d") == [0, 0, 0, QUOTA_EXCEEDED]
    # One that is held already may be renewed, and one that is given back makes room.
    assert codes(client, "a") == [0]
    client.send(encode.unsubscribe("b"))
    client.take()
    assert codes(client, "d", "e") == [0, QUOTA_EXCEEDED]
    other.take()
    assert codes(other, "a") == [0], "each client has its own"


def test_messages_in_flight_to_one_client() -> None:
    """Ours, although the client would take more at once."""
    harness = Harness(limits=BrokerLimits(in_flight=2))
    reader, writer = harness.connect("r"), harness.connect("w")
    reader.subscribe("t", 1)
    reader.take()
    for number in (1, 2, 3):
        writer.send(encode.publish("t", b"%d" % number, qos=1, packet_id=number))
    first, second = reader.messages()
    assert [first.payload, second.payload] == [b"1", b"2"]
    reader.send(encode.ack(0x40, first.packet_id))
    assert [one.payload for one in reader.messages()] == [b"3"]


@pytest.mark.parametrize(("size", "code"), [(12, 0x00), (13, 0x85)])
def test_the_length_of_a_client_id(size: int, code: int) -> None:
    """Counted in bytes: the letter takes two."""
    harness = Harness(limits=BrokerLimits(client_id_bytes=12))
    client = harness.connect("ä" + "x" * (size - 2))
    assert int(client.packets[0].reason_code) == code
    assert client.is_closed == (code != 0)


@pytest.mark.parametrize(("alias", "served"), [(5, True), (6, False)])
def test_topic_aliases_of_a_client(alias: int, served: bool) -> None:
    harness = Harness(limits=BrokerLimits(topic_aliases_in=5))
    client = harness.connect("c")
    assert client.take()[0].topic_alias_max == 5
    client.send(encode.publish("t", properties=b"\x23" + alias.to_bytes(2, "big")))
    assert client.is_closed is not served
    if not served:
        (goodbye,) = client.take()
        assert int(goodbye.reason_code) == ALIAS_INVALID


def test_topic_aliases_towards_a_client() -> None:
    """The client allows ten, we use two; further topics are written out."""
    harness = Harness(limits=BrokerLimits(topic_aliases_out=2))
    client = harness.connect("c", properties=b"\x22\x00\x0a")
    client.subscribe("#")
    client.take()
    for topic in ("a", "b", "c") * 2:
        client.send(encode.publish(topic, b"x"))
    found = client.messages()
    aliases = {one.topic_alias for one in found}
    assert aliases - {None} == {1, 2}
    assert len(found) == 6


def test_remembered_routes_are_bounded_and_only_a_memory() -> None:
    harness = Harness(limits=BrokerLimits(cached_routes=10))
    client = harness.connect("c")
    client.subscribe("#")
    client.take()
    for number in range(35):
        client.send(encode.publish(f"t/{number}", b"x"))
    assert len(client.messages()) == 35
    assert 0 < len(harness.core._state.routes.by_topic) <= 10


def test_what_is_over_a_limit_ends_nothing_else() -> None:
    harness = Harness(limits=BrokerLimits(subscriptions=1))
    client = harness.connect("c")
    client.take()
    codes(client, "a", "b")
    (pong,) = client.send(encode.PINGREQ)
    assert isinstance(pong, mqtt5.PingRespPacket)


@pytest.mark.parametrize(("spare", "kept"), [(-1, 2), (0, 3), (1, 3)])
def test_remembered_routes_are_bounded_by_their_bytes(spare: int, kept: int) -> None:
    """Three long topics fit exactly; one byte less, and the memory starts afresh with the third."""
    topics = [f"{number}" + "x" * 60_000 for number in range(3)]
    measured = Harness()
    measured.connect("c").send(*(encode.publish(topic) for topic in topics))
    size = measured.core._state.routes.bytes
    assert size > 3 * 2 * 60_000
    harness = Harness(limits=BrokerLimits(cached_route_bytes=size + spare))
    client = harness.connect("c")
    client.send(*(encode.publish(topic) for topic in topics))
    assert len(harness.core._state.routes.by_topic) == (kept if kept == 3 else 0)
    client.send(encode.publish(topics[0]))
    assert harness.core.counters.publishes_received == 4


def test_remembered_readers_are_let_go() -> None:
    """A route holds sessions that may read its topic: neither many nor those that have ended."""

    class Everything:
        def verdict(self, *_: object) -> ReasonCode:
            return ReasonCode.SUCCESS

    harness = Harness(access=Everything())
    steady, writer = harness.connect("s"), harness.connect("w")
    steady.subscribe("t")
    writer.send(encode.publish("t"))
    routes = harness.core._state.routes
    most = 0
    for number in range(2_500):
        guest = harness.connect(f"g{number}")
        guest.subscribe("t")
        writer.send(encode.publish("t", b"x"), encode.publish("t", b"x"))
        guest.lose()
        most = max(most, *(len(one.readers) for one in routes.by_topic.values()), 0)
    assert 900 < most <= 1_003


@pytest.mark.parametrize(("count", "kept"), [(1, True), (2, True), (3, False)])
def test_a_will_obeys_the_limits_of_retained_messages(count: int, kept: bool) -> None:
    # Of four one user gets two.
    harness = Harness(limits=BrokerLimits(retained_messages=4))
    reader = harness.connect("r")
    reader.subscribe("will/#")
    reader.take()
    for number in range(1, count + 1):
        flags = 0x02 | 0x04 | 0x20
        client = harness.connect(
            f"c{number}", flags=flags, rest=encode.will(f"will/{number}", b"x")
        )
        client.lose()
    assert harness.core.retained.count == min(count, 2)
    assert (harness.core.retained.find(f"will/{count}") is not None) == kept
    # Those who are subscribed get it in any case.
    assert [message.topic for message in reader.messages()][-1] == f"will/{count}"
    assert harness.core.counters.drops[Drop.RETAINED_FULL] == (0 if kept else 1)
    # In the place of one that is there it fits.
    harness.connect("c1", flags=0x26, rest=encode.will("will/1", b"y")).lose()
    found = harness.core.retained.find("will/1")
    assert found is not None
    assert found.payload == b"y"


def test_deadlines_of_retained_messages_go_with_them() -> None:
    """Each topic that was retained for a year and removed at once stayed for that year."""
    harness = Harness()
    client = harness.connect("c")
    timers = harness.core._state.timers
    year = b"\x02" + (365 * 86_400).to_bytes(4, "big")
    for number in range(1_000):
        client.send(encode.publish(f"t/{number}", b"x", retain=True, properties=year))
        client.send(encode.publish(f"t/{number}", b"", retain=True))
    assert harness.core.retained.count == 0
    assert len(timers) < 200
    assert not harness.core._retained_writer._timers
    # One that is retained again expires in its own time.
    client.send(encode.publish("t/1", b"x", retain=True, properties=year))
    client.send(encode.publish("t/1", b"", retain=True))
    client.send(encode.publish("t/1", b"x", retain=True, properties=b"\x02\x00\x00\x00\x05"))
    harness.advance(6)
    assert harness.core.retained.count == 0
