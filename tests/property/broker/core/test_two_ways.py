"""The fast path and the general path give every client the same bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.core.publish.fast_publish import Read
from tests.broker_core import encode, mqtt3
from tests.broker_core.two_ways import (
    FLOWS,
    PUBLISHES,
    PUBLISHES_3,
    SMALL_PACKET,
    SUBSCRIPTIONS,
    Flow,
    SomeRules,
    Subscription,
    acknowledge,
    connect_all,
    prepare,
)

# Cases that are drawn too rarely: the packet limit at its edge, a peid against the topic's.
CALM: dict[str, Any] = {
    "subscriptions": [Subscription(1, "#", 0, None, None)],
    "restricted": False,
    "senders": [0, 1],
    "publishes_3": [],
    "flow": Flow(),
}
LARGE = encode.publish("s/a", b"x" * 150)
TO_OLD = [Subscription(n, "#", 0, None, None) for n in (0, 1, 4, 5)]
MISMATCH = encode.publish("at/2", properties=encode.user("peid", "1"))


@settings(max_examples=200)
@given(
    st.lists(SUBSCRIPTIONS, max_size=8),
    st.lists(PUBLISHES, min_size=1, max_size=12),
    st.lists(PUBLISHES_3, max_size=6),
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=3),
    st.none() | st.integers(-1, 4),
    FLOWS,
)
@example(publishes=[LARGE], spare=-1, **CALM)
@example(publishes=[LARGE], spare=0, **CALM)
@example(publishes=[MISMATCH], spare=None, **CALM)
@example(
    subscriptions=TO_OLD,
    publishes=[encode.publish("s/a", b"x"), encode.publish("at/2")],
    publishes_3=[mqtt3.publish("s/a", b"y"), mqtt3.publish("at/3"), mqtt3.publish("at/x")],
    restricted=False,
    senders=[0, 1],
    spare=None,
    flow=Flow(),
)
@example(
    subscriptions=[Subscription(n, "s/#", 1, "A", None) for n in (1, 2, 3)],
    publishes=[
        encode.publish("s/a", b"x", properties=encode.user("peid", "2"), qos=1, packet_id=n)
        for n in range(1, 13)
    ],
    publishes_3=[mqtt3.publish("s/a", b"x", qos=1, packet_id=n) for n in range(1, 7)],
    restricted=False,
    senders=[0, 1],
    spare=None,
    flow=Flow(3, 2, is_durable=True),
)
def test_same_bytes(
    subscriptions: list[Subscription],
    publishes: list[bytes],
    publishes_3: list[bytes],
    restricted: bool,
    senders: list[int],
    spare: int | None,
    flow: Flow,
) -> None:
    # Around the size of the largest packet: a larger one than allowed ends its sender's connection.
    packet_bytes = (
        1_048_576 if spare is None else max(SMALL_PACKET, len(max(publishes, key=len)) + spare)
    )
    access = SomeRules() if restricted else None
    fast, general = (
        prepare(subscriptions, access, general=way, packet_bytes=packet_bytes, flow=flow)
        for way in (False, True)
    )
    for clients in (fast, general):
        if flow.is_paused:
            clients[0].harness.core.pause_writing(clients[1].connection)
            clients[0].harness.core.pause_writing(clients[5].connection)
        # Some routes are known from the start, the others are made by the first of two times.
        clients[2].send(encode.publish("s/a"), encode.publish("at/2"))
        for _ in range(2):
            clients[0].send(b"".join(publishes))
            clients[4].send(b"".join(publishes_3))
            acknowledge(clients, flow.acknowledged)
        # Reads of several clients in one turn, some of them cut in the middle of a packet.
        harness = clients[0].harness
        reads: list[Read] = []
        for number, packet in zip(senders * len(publishes), publishes, strict=False):
            cut = len(packet) * (number % 2) // 2
            pieces = (packet[:cut], packet[cut:])
            reads += [(clients[number].connection, piece) for piece in pieces if piece]
            reads += [(clients[4].connection, piece) for piece in publishes_3[:1]]
        harness.core.receive_all(iter(reads))
        harness.settle()
    assert [one.raw for one in fast] == [one.raw for one in general]
    assert [one.is_closed for one in fast] == [one.is_closed for one in general]
    # What was not acknowledged comes again.
    for clients in (fast, general):
        for client in clients:
            if not client.is_closed:
                client.lose()
    again, again_general = (connect_all(one[0].harness, clean=False) for one in (fast, general))
    assert [one.raw for one in again] == [one.raw for one in again_general]
    first, second = fast[0].harness.core.counters, general[0].harness.core.counters
    for name in (
        "publishes_received", "publish_bytes_received", "publishes_sent", "publish_bytes_sent",
        "matches", "spatial_publishes", "packets_received", "drops", "bytes_received",
    ):  # fmt: skip
        assert getattr(first, name) == getattr(second, name), name


def test_the_fast_path_is_taken_at_all() -> None:
    """Otherwise the comparison above would prove nothing."""
    clients = prepare([Subscription(1, "s/#", 0, "A", None)], None, general=False)
    core = clients[0].harness.core
    clients[0].send(encode.publish("s/a", b"x"))
    # Whatever does not take the fast path would fail now.
    del core._intake._general_publish
    clients[0].send(encode.publish("s/a", b"x", properties=encode.user("peid", "2")) * 10)
    assert len(clients[1].messages()) == 10


def test_the_fast_path_of_mqtt_3_is_taken_at_all() -> None:
    clients = prepare([Subscription(1, "at/+", 0, "A", None)], None, general=False)
    core = clients[0].harness.core
    clients[5].send(mqtt3.subscribe(("at/+", 0)))
    clients[4].send(mqtt3.publish("at/2", b"x"))
    del core._intake._general_publish
    clients[4].send(mqtt3.publish("at/2", b"x") * 10)
    assert len(clients[1].messages()) == 11
    assert len(clients[5].messages()) == 11


def test_the_fast_path_of_qos_1_is_taken_at_all() -> None:
    clients = prepare([Subscription(1, "s/#", 1, "A", None)], None, general=False)
    core = clients[0].harness.core
    clients[5].send(mqtt3.subscribe(("s/#", 1)))
    about = encode.user("peid", "2")
    clients[0].send(encode.publish("s/a", b"x", properties=about, qos=1, packet_id=1))
    acknowledge(clients, 4)
    del core._intake._general_publish
    clients[0].send(encode.publish("s/a", b"x", properties=about, qos=1, packet_id=2) * 10)
    clients[4].send(mqtt3.publish("s/a", b"x", qos=1, packet_id=2) * 10)
    kept = clients[1].connection.session
    assert kept is not None
    assert all(type(one) is tuple for one in kept.outgoing.unacknowledged.values())
    assert len(clients[1].packets) == 10
    assert len(clients[5].packets) == 20
    acknowledge(clients, 4)
    assert not kept.outgoing.unacknowledged
    assert kept.outgoing.bytes == 0
