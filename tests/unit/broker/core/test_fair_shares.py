"""What waits for clients is bounded over all sessions, and no user takes what others need."""

from __future__ import annotations

import tracemalloc
from itertools import chain

import pytest

from broker.core.counters import Drop, Refusal
from broker.core.limits import BrokerLimits, FairShare
from broker.core.message import DELIVERY_BYTES, Delivery, Message
from broker.core.sessions.incoming_flow import IDENTIFIER_BYTES
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.traced_memory import traced

EXPIRY = b"\x11\x00\x00\x0e\x10"
SIZE = Message("t", b"x" * 1_000).size + DELIVERY_BYTES


def away(harness: Harness, name: str, user: str | None = None, qos: int = 1) -> None:
    """A session that waits for its client."""
    flags, rest = (0, b"") if user is None else (0x80, encode.text(user))
    client = harness.connect(name, flags=flags, rest=rest, properties=EXPIRY)
    client.subscribe(f"{name}/#", qos)
    client.subscribe("t", qos)
    client.lose()


def publish(client: Client, topic: str, count: int = 1) -> None:
    for number in range(1, count + 1):
        client.send(encode.publish(topic, b"x" * 1_000, qos=1, packet_id=number))


def queued(harness: Harness, name: str) -> int:
    (session,) = [one for one in harness.core.sessions if one.client_id == name]
    return len(session.outgoing.queue)


def test_a_user_gets_half_and_the_next_half_of_the_rest() -> None:
    share = FairShare(1_000)
    first, second = share.account_of(("user", "a")), share.account_of(("user", "b"))
    assert first.has_room(500)
    assert not first.has_room(501)
    first.add(500)
    assert not first.has_room(1)
    assert second.has_room(250)
    assert not second.has_room(251)
    second.add(250)
    assert share.account_of(("address", "b")).has_room(125)
    first.add(-500)
    assert second.has_room(125)
    assert share.used == 250
    assert share.account_of(("user", "b")) is second


@pytest.mark.parametrize(("spare", "kept"), [(-1, 3), (0, 4), (1, 4)])
def test_all_queues_together_are_bounded(spare: int, kept: int) -> None:
    """Sessions of one user: four messages are half of the limit, for whichever session."""
    harness = Harness(limits=BrokerLimits(total_queued_bytes=8 * SIZE + spare))
    for name in ("a", "b"):
        away(harness, name)
    writer = harness.connect("w")
    for _ in range(5):
        publish(writer, "t")
    assert queued(harness, "a") + queued(harness, "b") == kept
    assert harness.core.counters.drops[Drop.TOTAL_QUEUE_FULL] == 10 - kept
    assert harness.core.counters.drops[Drop.QUEUE_FULL] == 0
    # What is fetched and acknowledged makes room.
    again = harness.connect("a", flags=0, properties=EXPIRY)
    (first, *_) = again.messages()
    again.send(encode.ack(0x40, first.packet_id))
    again.lose()
    publish(writer, "t")
    assert harness.core.counters.drops[Drop.TOTAL_QUEUE_FULL] == 10 - kept + 1


def test_one_user_with_many_sessions_leaves_room_for_others() -> None:
    harness = Harness(limits=BrokerLimits(total_queued_bytes=40 * SIZE))
    for number in range(10):
        away(harness, f"greedy{number}", "greedy")
    away(harness, "quiet", "quiet")
    writer = harness.connect("w")
    publish(writer, "t", 4)
    for number in range(10):
        publish(writer, f"greedy{number}/x", 5)
    publish(writer, "quiet/x", 5)
    # Those of the other user came through, all of them.
    assert queued(harness, "quiet") == 4 + 5
    greedy = sum(queued(harness, f"greedy{number}") for number in range(10))
    assert 15 <= greedy <= 20, "half of all"


def test_clients_without_a_user_name_have_the_account_of_their_address() -> None:
    harness = Harness()
    hosts = {"a1": "192.0.2.1", "a2": "192.0.2.1", "b": "192.0.2.2", "x1": None, "x2": None}
    for name, host in hosts.items():
        harness.connect(name, host, flags=0, properties=EXPIRY).lose()
    named = harness.connect("n", "192.0.2.1", flags=0x82, rest=encode.text("192.0.2.1"))
    assert named.connection.session is not None

    def accounts(name: str) -> tuple[int, ...]:
        (session,) = harness.core.sessions.of_client_id(name)
        held = session.queue_account, session.pair_account, session.subscription_account
        return tuple(map(id, held))

    assert accounts("a1") == accounts("a2")
    assert accounts("x1") == accounts("x2"), "as one, where no address is known"
    assert len({accounts(name) for name in ("a1", "b", "x1", "n")}) == 4
    before = accounts("a1")
    harness.connect("a1", "192.0.2.2", flags=0, properties=EXPIRY)
    assert accounts("a1") == before, "what it holds does not move"


def test_a_will_counts_for_the_account_of_the_session_that_it_belongs_to() -> None:
    size = Message("will", b"x" * 1_000).size + DELIVERY_BYTES
    harness = Harness(limits=BrokerLimits(total_queued_bytes=6 * size))
    will = encode.will("will", b"x" * 1_000)
    mine = [harness.connect(f"a{n}", "192.0.2.1", flags=0, properties=EXPIRY) for n in range(4)]
    for number, client in enumerate(mine):
        client.lose()
        again = harness.connect(f"a{number}", "192.0.2.2", flags=4, rest=will, properties=EXPIRY)
        assert int(again.packets[0].reason_code) == (0x97 if number == 3 else 0)
    other = harness.connect("b", "192.0.2.2", flags=6, rest=will)
    assert int(other.packets[0].reason_code) == 0


def test_the_end_of_a_session_gives_everything_back() -> None:
    harness = Harness()
    away(harness, "a")
    publish(harness.connect("w"), "t", 3)
    share = harness.core._state.shares.queues
    assert share.used >= 3 * SIZE
    harness.advance(3_700)
    assert harness.core.sessions.find("a") is None
    assert share.used == 0


def test_messages_in_flight_count() -> None:
    """A client that reads and never acknowledges held a thousand messages of any size."""
    harness = Harness(limits=BrokerLimits(queued_bytes=3 * SIZE))
    reader, writer = harness.connect("r"), harness.connect("w")
    reader.subscribe("t", 1)
    reader.take()
    publish(writer, "t", 5)
    found = reader.messages()
    assert len(found) == 3
    assert harness.core.counters.drops[Drop.QUEUE_FULL] == 2
    reader.send(encode.ack(0x40, found[0].packet_id))
    publish(writer, "t")
    assert len(reader.messages()) == 1


def test_in_flight_messages_of_all_sessions_are_bounded() -> None:
    harness = Harness(limits=BrokerLimits(total_queued_bytes=8 * SIZE + 200))
    readers = [harness.connect(f"r{number}") for number in range(3)]
    for one in readers:
        one.subscribe("t", 1)
        one.take()
    publish(harness.connect("w"), "t", 5)
    assert sum(len(one.messages()) for one in readers) == 4
    assert harness.core.counters.drops[Drop.TOTAL_QUEUE_FULL] == 11


def test_a_released_message_is_not_held_any_longer() -> None:
    """After PUBREC only the identifier is needed, though PUBCOMP may never come."""
    harness = Harness()
    reader, writer = harness.connect("r"), harness.connect("w")
    reader.subscribe("t", 2)
    reader.take()
    writer.send(encode.publish("t", b"x" * 100_000, qos=2, packet_id=1))
    (found,) = reader.messages()
    reader.send(encode.ack(0x50, found.packet_id))
    session = harness.core.sessions.find("r")
    assert session is not None
    (delivery,) = session.outgoing.identified.values()
    assert (delivery.message.payload, session.outgoing.bytes) == (b"", DELIVERY_BYTES)
    reader.send(encode.ack(0x70, found.packet_id))
    assert session.outgoing.bytes == 0


def test_many_matches_of_one_message_count() -> None:
    """The names of the subscriptions are stored with each message that waits for them."""
    harness = Harness(durable=True)
    reader = harness.connect("r", flags=0, properties=EXPIRY)
    for number in range(100):
        reader.subscribe("+" + "/+" * (number % 4) + "/#" * (number % 2) if number else "t", 1)
    session = harness.core.sessions.find("r")
    assert session is not None
    held = len(session.subscriptions)
    reader.lose()
    publish(harness.connect("w"), "t")
    (delivery,) = session.outgoing.queue
    matches = len(delivery.subscriptions)
    assert 1 < matches <= held
    names = sum(len(one.terms.topic_filter) for one in delivery.subscriptions)
    assert delivery.size >= SIZE + names + 8 * matches


def test_a_long_name_of_a_share_group_counts() -> None:
    """It is stored with each message, however short these are: 10,000 of them were 600 MB."""
    harness = Harness(durable=True)
    reader = harness.connect("r", flags=0, properties=EXPIRY)
    name = "g" * 50_000
    reader.subscribe(f"$share/{name}/t", 1)
    reader.lose()
    publish(harness.connect("w"), "t", 1_000)
    session = harness.core.sessions.find("r")
    assert session is not None
    assert session.outgoing.bytes >= len(session.outgoing.queue) * len(name)
    assert len(session.outgoing.queue) < 400
    assert harness.core.counters.drops[Drop.QUEUE_FULL] > 600


def test_a_message_that_is_kept_is_there_once() -> None:
    """What is written to a reader is not kept with a message that waits for others."""
    harness = Harness()
    away(harness, "a")
    reader, writer = harness.connect("r"), harness.connect("w")
    reader.subscribe("t")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, 21):
            writer.send(encode.publish("t", b"x" * 100_000, qos=1, packet_id=number, retain=True))
            reader.take()
            reader.raw = b""
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert queued(harness, "a") == 20
    assert held < 1.3 * 20 * 100_000


def test_what_is_in_flight_is_no_more_than_is_counted() -> None:
    """Routes are forgotten to free their memory, so no delivery may hold one."""
    harness = Harness()
    reader, writer = harness.connect("r"), harness.connect("w")
    reader.subscribe("a/#", 1)
    session = reader.connection.session
    assert session is not None

    def fill() -> Harness:
        for number in range(400):
            # The first takes the general path, and the second the fast one.
            packet = encode.publish(f"a/{number}", qos=1, packet_id=1)
            harness.core.receive(writer.connection, packet)
            harness.core.receive(writer.connection, packet)
        harness.core.outbox.writes.clear()
        reader.connection.out.clear()
        writer.connection.out.clear()
        harness.core._state.routes.clear()
        return harness

    held = traced(fill)
    kinds = [type(one) for one in session.outgoing.unacknowledged.values()]
    assert kinds == [Delivery, tuple] * 400
    assert held <= session.outgoing.bytes * 1.05


@pytest.mark.parametrize(("spare", "code"), [(-1, 0x97), (0, 0x00), (1, 0x00)])
def test_wills_count(spare: int, code: int) -> None:
    size = Message("will", b"x" * 1_000).size + DELIVERY_BYTES
    harness = Harness(limits=BrokerLimits(total_queued_bytes=4 * size + spare))
    first = harness.connect("a", flags=0x06, rest=encode.will("will", b"x" * 1_000))
    assert int(first.packets[0].reason_code) == 0
    second = harness.connect("b", flags=0x06, rest=encode.will("will", b"x" * 1_000))
    assert int(second.packets[0].reason_code) == code
    assert second.is_closed == (code != 0)
    assert harness.core.counters.refusals[Refusal.WILLS] == (code != 0)
    if code:
        assert "will" in second.packets[0].reason_str
    first.send(encode.DISCONNECT)
    second.lose()
    assert harness.core._state.shares.queues.used == 0


def test_what_is_restored_counts() -> None:
    harness = Harness(durable=True)
    away(harness, "a")
    publish(harness.connect("w"), "t", 3)
    again = Harness(durable=True, limits=BrokerLimits(total_queued_bytes=7 * SIZE))
    again.core.restore(chain.from_iterable(harness.core.durable_parts()))
    assert queued(again, "a") == 3
    assert again.core._state.shares.queues.used >= 3 * SIZE
    publish(again.connect("w"), "t", 3)
    assert queued(again, "a") == 3, "half of the limit is used already"
    assert again.core.counters.drops[Drop.TOTAL_QUEUE_FULL] == 3


@pytest.mark.parametrize(("spare", "code"), [(-1, 0x97), (0, 0x10), (1, 0x10)])
def test_identifiers_that_are_never_released_count(spare: int, code: int) -> None:
    """Each connection may leave a thousand of them in its session, and come back."""
    harness = Harness(limits=BrokerLimits(total_queued_bytes=6 * IDENTIFIER_BYTES + spare))
    client = harness.connect("a", flags=0, properties=EXPIRY)
    client.take()
    for number in (1, 2):
        client.send(encode.publish("t", b"x", qos=2, packet_id=number))
    client.lose()
    again = harness.connect("a", flags=0, properties=EXPIRY)
    again.take()
    (answer,) = again.send(encode.publish("t", b"x", qos=2, packet_id=3))
    assert int(answer.reason_code) == code
    again.send(encode.ack(0x62, 1))
    (_, answer) = again.send(encode.ack(0x62, 2), encode.publish("t", b"x", qos=2, packet_id=4))
    assert int(answer.reason_code) == 0x10
    again.lose()
    harness.advance(4_000)
    assert harness.core.shares.queues.used == 0
