"""Every packet of the table: whole, byte by byte, with more behind it, cut, and miscounted."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from tests.broker_core import encode
from tests.broker_core.harness import Client, Harness
from tests.broker_core.packet_table import AT_WORK, FIRST, Case

EVERY = [(case, True) for case in FIRST] + [(case, False) for case in AT_WORK]
every_case = pytest.mark.parametrize(("case", "is_first"), EVERY, ids=[str(c) for c, _ in EVERY])
legal_cases = pytest.mark.parametrize(
    ("case", "is_first"),
    [(case, first) for case, first in EVERY if case.reason is None and len(case.data) < 1_000],
    ids=[str(c) for c, _ in EVERY if c.reason is None and len(c.data) < 1_000],
)


def start(is_first: bool) -> Client:
    harness = Harness()
    if is_first:
        return harness.open()
    client = harness.connect("c")
    client.take()
    return client


def last_reason(client: Client) -> int | None:
    """What the connection ended with; None while it is open."""
    if not client.is_closed:
        return None
    end: Any = client.packets[-1]
    assert isinstance(end, mqtt5.ConnAckPacket | mqtt5.DisconnectPacket)
    return int(end.reason_code)


def check(case: Case, client: Client) -> None:
    assert last_reason(client) == case.reason
    if case.answer is not None:
        assert type(client.packets[0]).__name__ == case.answer


@every_case
def test_whole(case: Case, is_first: bool) -> None:
    client = start(is_first)
    client.send(case.data)
    check(case, client)


@every_case
def test_byte_by_byte(case: Case, is_first: bool) -> None:
    client = start(is_first)
    for byte in case.data:
        if not client.is_closed:
            client.send(bytes((byte,)))
    check(case, client)


@every_case
def test_with_more_behind_it(case: Case, is_first: bool) -> None:
    client = start(is_first)
    client.send(case.data + encode.PINGREQ + encode.PINGREQ)
    pongs = [one for one in client.packets if isinstance(one, mqtt5.PingRespPacket)]
    if case.reason is None:
        assert not client.is_closed
        assert len(pongs) == 2 + case.data.count(encode.PINGREQ) * (case.name == "ping")
    else:
        assert last_reason(client) == case.reason
        assert not pongs


@legal_cases
def test_cut_at_every_byte_it_waits_for_the_rest(case: Case, is_first: bool) -> None:
    for size in range(len(case.data)):
        client = start(is_first)
        assert client.send(case.data[:size]) == []
        assert not client.is_closed
        client.send(case.data[size:])
        check(case, client)


@legal_cases
def test_a_body_that_ends_too_early_is_legal_or_ends_the_connection(
    case: Case, is_first: bool
) -> None:
    first, body = case.data[0], case.data[2:] if case.data[1] < 0x80 else case.data[3:]
    for size in range(len(body)):
        client = start(is_first)
        client.send(encode.packet(first, body[:size]))
        reason = last_reason(client)
        assert reason is None or reason >= 0x80
        if is_first:
            assert reason is not None


@legal_cases
@pytest.mark.parametrize("change", [-1, 1])
def test_remaining_length_off_by_one(case: Case, is_first: bool, change: int) -> None:
    length, skip = (case.data[1], 2) if case.data[1] < 0x80 else (len(case.data) - 3, 3)
    # There is no length below 0: PINGREQ is only made longer.
    change = max(change, -length)
    client = start(is_first)
    header = case.data[:1] + encode.varint(length + change)
    # One byte is left over, which begins a packet, or one of the next packet is taken.
    client.send(header + case.data[skip:] + encode.PINGREQ + encode.PINGREQ)
    reason = last_reason(client)
    assert reason is None or reason >= 0x80


@pytest.mark.parametrize("first", [first for first in range(0x100) if first != 0x10])
def test_whatever_comes_before_connect_ends_the_connection(first: int) -> None:
    client = Harness().open()
    client.send(bytes((first,)))
    assert client.is_closed
    assert client.raw == b""
    client.send(encode.connect())
    assert client.raw == b""


def test_before_connect_the_limit_is_64_kib_from_the_header_alone() -> None:
    client = Harness().open()
    client.send(b"\x10" + encode.varint(65_536))
    assert client.is_closed
    assert len(client.connection.inbox) == 0


def test_at_the_edge_of_the_limit_a_connect_is_still_read() -> None:
    client = Harness().open()
    client.send(b"\x10" + encode.varint(65_536 - 4))
    assert not client.is_closed


def test_at_the_edge_of_the_packet_limit() -> None:
    harness = Harness()
    limit = 1_048_576
    inside, outside = harness.connect("a"), harness.connect("b")
    overhead = len(encode.publish("t", b"x" * 1_000_000)) - 1_000_000
    inside.send(encode.publish("t", b"x" * (limit - overhead)))
    outside.take()
    outside.send(encode.publish("t", b"x" * (limit - overhead + 1))[:5])
    assert not inside.is_closed
    (end,) = outside.take()
    assert end.reason_code == mqtt5.DisconnectReasonCode.PACKET_TOO_LARGE


def test_a_helper_that_could_not_fail_would_prove_nothing() -> None:
    client = start(is_first=False)
    with pytest.raises(AssertionError):
        check(Case("ping", encode.PINGREQ, 0x81), client)
