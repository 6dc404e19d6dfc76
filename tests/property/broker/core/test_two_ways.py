"""The fast path and the general path give every client the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.codec.gateway_rules import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core.limits import BrokerLimits
from broker.core.publish.fast_publish import Read, Stop
from broker.core.verdicts import AccessControl, Action, Identity
from tests.broker_core import encode, mqtt3
from tests.broker_core.harness import Client, Harness

NEIGHBORHOODS = {"A": [1, 2, 3], "B": [2, 3, 4], "C": [], "D": list(range(60))}
MOST_USERS = 40
# Around what the fast path takes.
PAYLOADS = [0, 1, 150, 160, 200, 300, 8_120, 8_150, 8_170, 8_180, 8_185, 8_190, 8_195, 8_200, 9_000]
# The smallest packet limit under which every SUBSCRIBE is taken.
SMALL_PACKET = 150
TOPICS = st.sampled_from(["s/a", "s/b", "s", "at/2", "at/x", "$SYS/x", "s/" + "x" * 150])
FILTERS = st.sampled_from(["s/#", "s/+", "s/a", "#", "+/+", "at/+", "$share/g/s/#"])


class Alone:
    """Stands in for the fast path and leaves everything to the general one."""

    def run(self, reads: Iterator[Read], position: int = 0, _found: object = None) -> Stop | None:
        for connection, data in reads:
            return connection, data, position
        return None


class Alone3:
    """The same for clients of MQTT 3."""

    def run(self, _connection: object, _session: object, _data: bytes, position: int) -> int:
        return position


class SomeRules:
    def verdict(self, client: Identity, topic: str, action: Action) -> ReasonCode:
        denied = (
            (action is Action.RECEIVE and client.client_id in {"1", "5"} and topic == "s/a")
            or (action is Action.PUBLISH and topic == "s/b" and client.client_id in {"0", "4"})
        )  # fmt: skip
        return ReasonCode.NOT_AUTHORIZED if denied else ReasonCode.SUCCESS


@dataclass(frozen=True)
class Subscription:
    client: int
    pattern: str
    options: int
    neighborhood: str | None
    identifier: int | None


SUBSCRIPTIONS = st.builds(
    Subscription,
    st.integers(0, 5),
    FILTERS,
    st.sampled_from([0, 1, 2, 4, 8]),
    st.none() | st.sampled_from(sorted(NEIGHBORHOODS)),
    st.none() | st.integers(1, 300),
)
# Cases that are drawn too rarely: the packet limit at its edge, a peid against the topic's.
CALM: dict[str, Any] = {
    "subscriptions": [Subscription(1, "#", 0, None, None)],
    "restricted": False,
    "paused": False,
    "senders": [0, 1],
    "publishes_3": [],
}
LARGE = encode.publish("s/a", b"x" * 150)
TO_OLD = [Subscription(n, "#", 0, None, None) for n in (0, 1, 4, 5)]
MISMATCH = encode.publish("at/2", properties=encode.user("peid", "1"))
PROPERTIES = (
    st.just(b"")
    | st.sampled_from([b"1", b"2", b"3", b"0", b"59", b"999", b"007", b"-1", b"", b"1" * 18])
    .map(lambda value: encode.user("peid", value))
    | st.just(encode.user("peid", str(2**63 - 1)))
    | st.just(encode.user("peid", "2") + encode.user("a", "b"))
    | st.just(encode.user("a", "b") + encode.user("peid", "2"))
    | st.just(encode.user("peic", "2"))
    | st.just(b"\x02\x00\x00\x00\x05" + encode.user("peid", "3"))
    # What a publisher may not say: an nsid, two peids.
    | st.just(encode.user("nsid", "1"))
    | st.just(encode.user("nsid", "7") + encode.user("peid", "2"))
    | st.just(encode.user("peid", "2") + encode.user("nsid", "7"))
    | st.just(encode.user("peid", "2") * 2)
    | st.sampled_from([MOST_USERS - 1] * 3 + [MOST_USERS])
    .map(lambda count: encode.user("peid", "2") + encode.user("", "") * count)
)  # fmt: skip
PUBLISHES = st.builds(
    lambda topic, payload, properties, retain: encode.publish(
        topic, payload, properties=properties, retain=retain
    ),
    TOPICS,
    st.binary(max_size=140) | st.sampled_from(PAYLOADS).map(lambda size: b"x" * size),
    PROPERTIES,
    st.sampled_from([False, False, False, True]),
)


PUBLISHES_3 = st.builds(
    lambda topic, payload, retain: mqtt3.publish(topic, payload, retain=retain),
    TOPICS,
    st.binary(max_size=140) | st.sampled_from(PAYLOADS).map(lambda size: b"x" * size),
    st.sampled_from([False, False, False, True]),
)


def prepare(
    subscriptions: list[Subscription],
    access: AccessControl | None,
    *,
    general: bool,
    packet_bytes: int = 1_048_576,
) -> list[Client]:
    limits = BrokerLimits(user_properties=MOST_USERS, packet_bytes=packet_bytes)
    harness = Harness(gateway=GatewayRules(["at/{peid}"]), access=access, limits=limits)
    harness.neighborhoods = dict(NEIGHBORHOODS)
    if general:
        harness.core._intake._fast = Alone()  # type: ignore[assignment]
        harness.core._intake._fast_3 = Alone3()  # type: ignore[assignment]
    # One has aliases, one has a packet limit.
    properties = [b"", b"", b"\x22\x00\x01", b"\x27\x00\x00\x00\x60"]
    clients = [harness.connect(str(n), properties=properties[n]) for n in range(4)]
    clients += [harness.connect_3("4"), harness.connect_3("5", level=3)]
    for nsid, one in enumerate(subscriptions, start=1):
        if one.client > 3:
            clients[one.client].send(mqtt3.subscribe((one.pattern, one.options & 1)))
            continue
        if one.pattern.startswith("$share") and one.options == 4:
            continue
        extra = b"" if one.identifier is None else b"\x0b" + encode.varint(one.identifier)
        if one.neighborhood is not None:
            extra += encode.user("neighborhood", one.neighborhood) + encode.user("nsid", str(nsid))
        clients[one.client].subscribe(one.pattern, one.options, properties=extra)
    return clients


@settings(max_examples=200)
@given(
    st.lists(SUBSCRIPTIONS, max_size=8),
    st.lists(PUBLISHES, min_size=1, max_size=12),
    st.lists(PUBLISHES_3, max_size=6),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=3),
    st.none() | st.integers(-1, 4),
)
@example(publishes=[LARGE], spare=-1, **CALM)
@example(publishes=[LARGE], spare=0, **CALM)
@example(publishes=[MISMATCH], spare=None, **CALM)
@example(
    subscriptions=TO_OLD,
    publishes=[encode.publish("s/a", b"x"), encode.publish("at/2")],
    publishes_3=[mqtt3.publish("s/a", b"y"), mqtt3.publish("at/3"), mqtt3.publish("at/x")],
    restricted=False,
    paused=False,
    senders=[0, 1],
    spare=None,
)
def test_same_bytes(
    subscriptions: list[Subscription],
    publishes: list[bytes],
    publishes_3: list[bytes],
    restricted: bool,
    paused: bool,
    senders: list[int],
    spare: int | None,
) -> None:
    # Around the size of the largest packet: a larger one than allowed ends its sender's connection.
    packet_bytes = (
        1_048_576 if spare is None else max(SMALL_PACKET, len(max(publishes, key=len)) + spare)
    )
    access = SomeRules() if restricted else None
    fast, general = (
        prepare(subscriptions, access, general=way, packet_bytes=packet_bytes)
        for way in (False, True)
    )
    for clients in (fast, general):
        if paused:
            clients[0].harness.core.pause_writing(clients[1].connection)
            clients[0].harness.core.pause_writing(clients[5].connection)
        # Some routes are known from the start, the others are made by the first of two times.
        clients[2].send(encode.publish("s/a"), encode.publish("at/2"))
        for _ in range(2):
            clients[0].send(b"".join(publishes))
            clients[4].send(b"".join(publishes_3))
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
