"""Every packet of MQTT 3: whole, byte by byte, with more behind it, cut, and miscounted."""

from __future__ import annotations

import pytest

from tests.broker_core import encode, mqtt3
from tests.broker_core.harness import Client, Harness
from tests.broker_core.mqtt3 import Pong
from tests.broker_core.packet_table_3 import AT_WORK_3, FIRST_3, Case3

EVERY = [(case, True) for case in FIRST_3] + [(case, False) for case in AT_WORK_3]
every_case = pytest.mark.parametrize(("case", "is_first"), EVERY, ids=[str(c) for c, _ in EVERY])
LEGAL = [(case, is_first) for case, is_first in EVERY if not case.closes]
legal_cases = pytest.mark.parametrize(("case", "is_first"), LEGAL, ids=[str(c) for c, _ in LEGAL])


def start(is_first: bool) -> Client:
    harness = Harness()
    if is_first:
        client = harness.open()
        client.is_old = True
        return client
    client = harness.connect_3("c")
    client.take()
    return client


def check(case: Case3, client: Client) -> None:
    assert client.is_closed == case.closes
    assert client.packets[:1] == ([] if case.answer is None else [case.answer])
    if case.closes:
        assert len(client.packets) == (case.answer is not None)


@every_case
def test_whole(case: Case3, is_first: bool) -> None:
    client = start(is_first)
    client.send(case.data)
    check(case, client)


@every_case
def test_byte_by_byte(case: Case3, is_first: bool) -> None:
    client = start(is_first)
    for byte in case.data:
        if not client.is_closed:
            client.send(bytes((byte,)))
    check(case, client)


@every_case
def test_with_more_behind_it(case: Case3, is_first: bool) -> None:
    client = start(is_first)
    client.send(case.data + encode.PINGREQ + encode.PINGREQ)
    pongs = client.packets.count(Pong())
    assert client.is_closed == case.closes
    assert pongs == (0 if case.closes else 2 + (case.name == "ping"))


@legal_cases
def test_cut_at_every_byte_it_waits_for_the_rest(case: Case3, is_first: bool) -> None:
    for size in range(len(case.data)):
        client = start(is_first)
        assert client.send(case.data[:size]) == []
        assert not client.is_closed
        client.send(case.data[size:])
        check(case, client)


@legal_cases
def test_a_body_that_ends_too_early_is_legal_or_ends_the_connection(
    case: Case3, is_first: bool
) -> None:
    body = case.data[2 if case.data[1] < 0x80 else 3 :]
    for size in range(len(body)):
        client = start(is_first)
        # Before its version is known it is answered as a client of MQTT 5.
        client.is_old = not is_first or size > 2 + body[1]
        client.send(encode.packet(case.data[0], body[:size]))
        # MQTT 3.1 takes a CONNECT without the fields that its flags announce.
        assert client.is_closed or not is_first or "3.1" in case.name


@legal_cases
@pytest.mark.parametrize("change", [-1, 1])
def test_remaining_length_off_by_one(case: Case3, is_first: bool, change: int) -> None:
    skip = 2 if case.data[1] < 0x80 else 3
    length = max(0, len(case.data) - skip + change)
    client = start(is_first)
    client.send(case.data[:1] + encode.varint(length) + case.data[skip:] + encode.PINGREQ * 2)
    # Nothing but packets of MQTT 3 came back: the harness has read them all.
    assert len(client.packets) <= 3


def test_versions_are_served_side_by_side_on_one_broker() -> None:
    harness = Harness()
    new, old, older = harness.connect("n"), harness.connect_3("o"), harness.connect_3("p", level=3)
    assert [one.connection.codec.name for one in (new, old, older)] == [
        "MQTT 5", "MQTT 3.1.1", "MQTT 3.1",
    ]  # fmt: skip


def test_a_second_connect_does_not_change_the_version() -> None:
    client = start(is_first=False)
    client.send(encode.connect("c"))
    assert client.is_closed
    assert client.raw == b"\x20\x02\x00\x00"


def test_before_connect_is_accepted_little_may_be_sent() -> None:
    client = Harness().open()
    client.send(mqtt3.connect("c" * 65_535))
    assert client.is_closed
    assert client.raw == b""


def test_a_helper_that_could_not_fail_would_prove_nothing() -> None:
    client = start(is_first=False)
    with pytest.raises(AssertionError):
        check(Case3("ping", encode.PINGREQ, closes=True), client)
