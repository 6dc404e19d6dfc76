"""Two brokers with the same clients: one with its fast paths, one with the general path alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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


class AlonePath:
    """The same for clients of MQTT 3, and for QoS 1 and its acknowledgements."""

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
class Flow:
    """How many may be in flight, and which share of them is acknowledged, of four."""

    in_flight: int = 1_000
    acknowledged: int = 0
    is_durable: bool = False
    # Whether two clients do not read.
    is_paused: bool = False


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
PAYLOAD = st.binary(max_size=140) | st.sampled_from(PAYLOADS).map(lambda size: b"x" * size)
RETAIN = st.sampled_from([False, False, False, True])
# A packet identifier, for QoS 1; 0 is none that there is.
IDENTIFIERS = st.sampled_from([None] * 6 + [1, 2, 3, 256, 65_535] * 2 + [0])


def with_qos(packet_id: int | None, *, duplicate: bool) -> dict[str, Any]:
    return {
        "qos": 0 if packet_id is None else 1,
        "packet_id": packet_id,
        "duplicate": duplicate and packet_id is not None,
    }


QOS = st.builds(with_qos, IDENTIFIERS, duplicate=RETAIN)
PUBLISHES = st.builds(
    lambda topic, payload, properties, retain, qos: encode.publish(
        topic, payload, properties=properties, retain=retain, **qos
    ),
    TOPICS,
    PAYLOAD,
    PROPERTIES,
    RETAIN,
    QOS,
)


PUBLISHES_3 = st.builds(
    lambda topic, payload, retain, qos: mqtt3.publish(topic, payload, retain=retain, **qos),
    TOPICS,
    PAYLOAD,
    RETAIN,
    QOS,
)
FLOWS = st.builds(
    Flow, st.sampled_from([1, 3, 1_000]), st.integers(0, 4), st.booleans(), st.booleans()
)
EXPIRY = b"\x11\x00\x00\x0e\x10"


def connect_all(harness: Harness, *, clean: bool) -> list[Client]:
    """Connect four clients of MQTT 5, one of MQTT 3.1.1 and one of MQTT 3.1.

    One has aliases, one has a packet limit. The sessions of two outlive their connections.
    """
    properties = [b"", EXPIRY, b"\x22\x00\x01", b"\x27\x00\x00\x00\x60"]
    flags = 0x02 if clean else 0
    clients = [harness.connect(str(n), properties=properties[n], flags=flags) for n in range(4)]
    return [*clients, harness.connect_3("4"), harness.connect_3("5", level=3, flags=0)]


def acknowledge(clients: list[Client], share: int) -> None:
    """Have every client acknowledge some of what it got at QoS 1."""
    for client in clients:
        found = [one.packet_id for one in client.messages() if one.packet_id]
        wanted = [one for number, one in enumerate(found) if number % 4 < share]
        if wanted and not client.is_closed:
            client.send(b"".join(encode.ack(0x40, one) for one in wanted))


def prepare(
    subscriptions: list[Subscription],
    access: AccessControl | None,
    *,
    general: bool,
    packet_bytes: int = 1_048_576,
    flow: Flow = Flow(),  # noqa: B008 - it cannot be changed
) -> list[Client]:
    limits = BrokerLimits(
        user_properties=MOST_USERS,
        packet_bytes=packet_bytes,
        in_flight=flow.in_flight,
        receive_maximum=5,
    )
    harness = Harness(
        gateway=GatewayRules(["at/{peid}"]), access=access, limits=limits, durable=flow.is_durable
    )
    harness.neighborhoods = dict(NEIGHBORHOODS)
    if general:
        harness.core._intake._fast = Alone()  # type: ignore[assignment]
        harness.core._intake._fast_3 = AlonePath()  # type: ignore[assignment]
        harness.core._intake._qos_1 = AlonePath()  # type: ignore[assignment]
    clients = connect_all(harness, clean=True)
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
