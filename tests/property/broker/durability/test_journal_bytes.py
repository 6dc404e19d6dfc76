"""What is stored comes back exactly; whatever else is found there is our own error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.journal import MessageQueued, SessionSaved
from broker.core.message import Message
from broker.core.subscribe.subscription import SubscriptionTerms
from broker.durability.records.message_bytes import (
    RELEASED_ENTRY,
    entry_naming,
    entry_with,
    message_from_bytes,
    message_to_bytes,
    read_entry,
)
from broker.durability.records.session_fields import (
    read_session,
    read_terms,
    session_text,
    terms_text,
)
from schemas.errors import JournalError
from tests.strategies.journal import messages, parts_of, queued, sessions, terms


@given(messages())
def test_messages_come_back(message: Message) -> None:
    assert parts_of(message_from_bytes(message_to_bytes(message))) == parts_of(message)


@given(messages(), messages())
def test_different_messages_have_different_bytes(one: Message, other: Message) -> None:
    same = message_to_bytes(one) == message_to_bytes(other)
    assert same == (parts_of(one) == parts_of(other))


@given(queued)
def test_queue_entries_come_back_with_their_message(record: MessageQueued) -> None:
    entry = read_entry(entry_with(record, message_to_bytes(record.message)))
    assert (entry.qos, entry.retain, entry.keys) == (record.qos, record.retain, record.keys)
    assert isinstance(entry.message, Message)
    assert parts_of(entry.message) == parts_of(record.message)


@given(queued, st.integers(0, 2**63 - 1))
def test_queue_entries_come_back_with_a_number(record: MessageQueued, number: int) -> None:
    entry = read_entry(entry_naming(record, number))
    assert (entry.qos, entry.retain, entry.keys) == (record.qos, record.retain, record.keys)
    assert entry.message == number


def test_a_released_entry_has_nothing_but_its_place() -> None:
    entry = read_entry(RELEASED_ENTRY)
    assert (entry.qos, entry.retain, entry.keys, entry.message) == (2, False, (), None)


@given(sessions)
def test_sessions_come_back(session: SessionSaved) -> None:
    will = None if session.will is None else session.will.message
    assert read_session(session.client_id, session_text(session), will) == session


@given(terms)
def test_subscriptions_come_back(one: SubscriptionTerms) -> None:
    assert read_terms("client", terms_text(one)) == one


def test_the_bytes_are_those_of_the_first_release() -> None:
    """Stored by one release, read by the next: this may never change for format 1."""
    message = Message(
        "a/b", b"xy", properties=b"\x02\x00\x00\x00\x09", qos=1, retain=True,
        peid=4711, expires_at=1.5, expiry_offset=1,
    )  # fmt: skip
    packed = bytes.fromhex(
        "013d00000005000000013ff800000000000000000000000012670003612f6202000000097879"
    )
    assert message_to_bytes(message) == packed
    record = MessageQueued("c", 1, message, 1, retain=True, keys=("a/#", 12))
    head = bytes.fromhex("01050002000003612f230100023132")
    assert entry_with(record, packed) == head + packed
    assert entry_naming(record, 258) == b"\x01\x0d" + head[2:] + (258).to_bytes(8, "big")


READERS = (message_from_bytes, read_entry, lambda data: read_terms("client", data))


@pytest.mark.parametrize("read", READERS)
@given(data=st.binary(max_size=100))
def test_any_bytes_give_a_value_or_our_own_error(
    read: Callable[[bytes], object], data: bytes
) -> None:
    with contextlib.suppress(JournalError):
        read(data)


@given(queued, st.data())
def test_an_entry_cut_anywhere_in_its_head_is_our_own_error(
    record: MessageQueued, data: st.DataObject
) -> None:
    whole = entry_with(record, message_to_bytes(record.message))
    head = len(whole) - len(record.message.payload)
    cut = data.draw(st.integers(0, head - 1))
    with pytest.raises(JournalError):
        read_entry(whole[:cut])


def test_a_later_format_is_refused() -> None:
    for read in (message_from_bytes, read_entry):
        with pytest.raises(JournalError, match="format 2, this release reads 1"):
            read(b"\x02" + bytes(20))
    with pytest.raises(JournalError, match="format 2, this release reads 1"):
        read_terms("c", b'{"format":2}')
