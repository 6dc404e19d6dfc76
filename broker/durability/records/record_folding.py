"""Folding records into changes, one kind of record after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker.core.journal import (
    MessageDone,
    MessageQueued,
    MessageReleased,
    MessageSent,
    PacketReceived,
    PacketReleased,
    Record,
    RetainedRemoved,
    RetainedSaved,
    SessionEnded,
    SessionSaved,
    SubscriptionRemoved,
    SubscriptionSaved,
)
from broker.durability.records.changes import Changes, SessionChanges
from broker.durability.records.field_names import (
    PACKET_ID_FIELD,
    RECEIVED_FIELD,
    SESSION_FIELD,
    WILL_FIELD,
    subscription_field,
)
from broker.durability.records.message_bytes import message_to_bytes
from broker.durability.records.queue_entry import RELEASED_ENTRY
from broker.durability.records.session_texts import session_text, terms_text


def fold(changes: Changes, records: Iterable[Record]) -> None:
    """Add records to the changes, in their order."""
    for record in records:
        _FOLDS[type(record)](changes, record)
        changes.records += 1


def _session_saved(changes: Changes, record: SessionSaved) -> None:
    session = changes.of(record.client_id)
    session.is_new = True
    session.fields[SESSION_FIELD] = session_text(record)
    will = record.will
    session.fields[WILL_FIELD] = None if will is None else message_to_bytes(will.message)


def _session_ended(changes: Changes, record: SessionEnded) -> None:
    session = changes.sessions[record.client_id] = SessionChanges()
    session.is_over = True


def _subscription_saved(changes: Changes, record: SubscriptionSaved) -> None:
    field = subscription_field(record.terms.key)
    changes.of(record.client_id).fields[field] = terms_text(record.terms)


def _subscription_removed(changes: Changes, record: SubscriptionRemoved) -> None:
    changes.of(record.client_id).fields[subscription_field(record.key)] = None


def _message_queued(changes: Changes, record: MessageQueued) -> None:
    changes.of(record.client_id).queue[record.position] = record


def _message_sent(changes: Changes, record: MessageSent) -> None:
    field = f"{PACKET_ID_FIELD}{record.position}"
    changes.of(record.client_id).fields[field] = record.packet_id


def _message_released(changes: Changes, record: MessageReleased) -> None:
    changes.of(record.client_id).queue[record.position] = RELEASED_ENTRY


def _message_done(changes: Changes, record: MessageDone) -> None:
    position = record.position
    session = changes.of(record.client_id)
    if not changes.is_repeated and isinstance(session.queue.get(position), MessageQueued):
        # Neither it nor its identifier was ever stored.
        del session.queue[position]
        session.fields.pop(f"{PACKET_ID_FIELD}{position}", None)
        return
    session.queue[position] = None
    session.fields[f"{PACKET_ID_FIELD}{position}"] = None


def _packet_received(changes: Changes, record: PacketReceived) -> None:
    changes.of(record.client_id).fields[f"{RECEIVED_FIELD}{record.packet_id}"] = b""


def _packet_released(changes: Changes, record: PacketReleased) -> None:
    changes.of(record.client_id).fields[f"{RECEIVED_FIELD}{record.packet_id}"] = None


def _retained_saved(changes: Changes, record: RetainedSaved) -> None:
    changes.retained[record.message.topic] = record.message


def _retained_removed(changes: Changes, record: RetainedRemoved) -> None:
    changes.retained[record.topic] = None


# By type: this runs for every QoS 1 message, and a chain of comparisons would cost more.
_FOLDS: Final[dict[type, Callable[[Changes, Any], None]]] = {
    SessionSaved: _session_saved,
    SessionEnded: _session_ended,
    SubscriptionSaved: _subscription_saved,
    SubscriptionRemoved: _subscription_removed,
    MessageQueued: _message_queued,
    MessageSent: _message_sent,
    MessageReleased: _message_released,
    MessageDone: _message_done,
    PacketReceived: _packet_received,
    PacketReleased: _packet_released,
    RetainedSaved: _retained_saved,
    RetainedRemoved: _retained_removed,
}
