"""Any bytes, in any pieces: the connection goes on or ends with a reason, nothing else."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import mqtt5
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec.packet_reader import (
    Connect,
    read_connect,
    read_connect_head,
    read_disconnect,
    read_subscribe,
    read_unsubscribe,
)
from broker.codec.publish import read_publish
from broker.codec.reason_codes import ProtocolError
from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.packet_table import AT_WORK, FIRST

PACKETS = [case.data for case in (*FIRST, *AT_WORK) if len(case.data) < 300]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Packets of the table, with bytes changed, taken out or put in."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(PACKETS), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(0, 4))):
        position = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from(["set", "insert", "delete"]))
        if change == "insert":
            data.insert(position, draw(st.integers(0, 255)))
        elif data:
            position = min(position, len(data) - 1)
            if change == "set":
                data[position] = draw(st.integers(0, 255))
            else:
                del data[position]
    return bytes(data)


INPUT = st.binary(max_size=200) | mutated()


def run(data: bytes, cuts: list[int], *, is_first: bool) -> Client:
    harness = Harness(new_client_id=lambda: "assigned")
    harness.neighborhoods = {}
    client = harness.open() if is_first else harness.connect("c")
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, stop in pairwise(edges):
        client.send(data[start:stop])
    return client


@settings(max_examples=400)
@given(INPUT, st.lists(st.integers(0, 10_000), max_size=5), st.booleans())
def test_the_outcome_is_legal_and_does_not_depend_on_the_pieces(
    data: bytes, cuts: list[int], is_first: bool
) -> None:
    whole = run(data, [], is_first=is_first)
    pieces = run(data, cuts, is_first=is_first)
    assert whole.raw == pieces.raw
    assert whole.is_closed == pieces.is_closed
    if whole.is_closed and whole.packets:
        end = whole.packets[-1]
        is_old = isinstance(end, bytes)
        was_said = isinstance(end, mqtt5.DisconnectPacket | mqtt5.ConnAckPacket)
        # A client that sent DISCONNECT, or never CONNECT, gets no answer.
        assert is_old or was_said or whole.harness.core.counters.protocol_errors == 0
    # The broker goes on.
    assert len(whole.harness.connect("other").take()) == 1


MOST_USERS = 3


def read_whole_connect(data: bytes, body: int, end: int, most_users: int) -> Connect:
    head = read_connect_head(data, body, end, most_users)
    return read_connect(data, body, end, head, most_users)


@settings(max_examples=300)
@given(st.binary(max_size=80), st.integers(0, 255))
def test_readers_raise_nothing_but_their_own(body: bytes, first: int) -> None:
    for reader in (read_whole_connect, read_subscribe, read_unsubscribe, read_disconnect):
        with contextlib.suppress(ProtocolError):
            reader(body, 0, len(body), MOST_USERS)
    with contextlib.suppress(ProtocolError):
        read_publish(body, 0x30 | first & 0x0F, 0, len(body), MOST_USERS)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=6)
# The package itself refuses to write wildcards into a topic.
TOPIC = TEXT.filter(lambda topic: not {"+", "#"} & set(topic))


@given(
    topic=TOPIC,
    payload=st.binary(max_size=30),
    users=st.lists(
        st.tuples(TEXT | st.sampled_from(["peid", "nsid"]), TEXT | st.just("12")), max_size=4
    ),
    expiry=st.none() | st.integers(0, 2**32 - 1),
    content=st.none() | TEXT,
    correlation=st.none() | st.binary(max_size=5),
    qos=st.integers(0, 2),
    retain=st.booleans(),
)
def test_the_scanner_reads_what_the_package_reads(  # noqa: PLR0913 - the fields of a PUBLISH
    *,
    topic: str,
    payload: bytes,
    users: list[tuple[str, str]],
    expiry: int | None,
    content: str | None,
    correlation: bytes | None,
    qos: int,
    retain: bool,
) -> None:
    data = mqtt5.PublishPacket(
        topic or "t",
        payload,
        qos=mqtt5.QoS(qos),
        packet_id=7 if qos else None,
        retain=retain,
        message_expiry_interval=expiry,
        content_type=content,
        correlation_data=correlation,
        user_properties=users,
    ).write()
    body = 2 if data[1] < 0x80 else 3
    scanned = read_publish(data, data[0], body, len(data), len(users))
    assert (scanned.topic.decode(), scanned.payload) == (topic or "t", payload)
    assert (scanned.qos, scanned.retain) == (qos, retain)
    assert scanned.properties.expiry == expiry
    again, _ = mqtt5.read(memoryview(encode.publish("x", b"", properties=scanned.properties.raw)))
    assert isinstance(again, mqtt5.PublishPacket)
    # An nsid is the broker's alone.
    assert again.user_properties == [one for one in users if one[0] != "nsid"]
    assert (again.content_type, again.correlation_data) == (content, correlation)
    peids = [value for name, value in users if name == "peid"]
    if peids == ["12"]:
        assert scanned.properties.peid == 12
    elif not peids:
        assert scanned.properties.peid is None
    else:
        assert scanned.properties.peid_error is not None or peids[0].isascii()


def test_a_megabyte_byte_by_byte_is_joined_once() -> None:
    harness = Harness()
    client = harness.connect("c")
    client.subscribe("t")
    client.take()
    data = encode.publish("t", bytes(range(256)) * 4_000)
    receive = harness.core.receive
    for byte in data:
        receive(client.connection, bytes((byte,)))
    harness.settle()
    assert client.raw.endswith(data)
    assert len(client.connection.inbox) == 0
