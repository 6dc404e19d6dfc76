"""The changes of one step in the durable state: the final result of the records since the last.

All records since the last step are stored together, so only the result counts: a message that was
queued and acknowledged in between leaves nothing to store. All changes are absolute ("this field
has this value"), so they can be repeated when it is not known whether Redis has them.
"""

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
from broker.core.message import Message
from broker.durability.records.message_bytes import RELEASED_ENTRY, message_to_bytes
from broker.durability.records.session_fields import (
    PACKET_ID_FIELD,
    RECEIVED_FIELD,
    SESSION_FIELD,
    WILL_FIELD,
    session_text,
    subscription_field,
    terms_text,
)


class SessionChanges:
    """The changes of one session; None means "removed".

    ``fields`` are those of its hash, by name, without the queue. ``queue`` maps a position to a
    message, or to the bytes of its entry.
    """

    __slots__ = ("fields", "is_new", "is_over", "queue")

    def __init__(self) -> None:
        # Everything stored before is deleted first.
        self.is_over = False
        # The session was saved: the index must name it.
        self.is_new = False
        self.fields: dict[str, bytes | int | None] = {}
        self.queue: dict[int, MessageQueued | bytes | None] = {}


class Changes:
    """Changes to be stored in one step."""

    __slots__ = ("freed", "is_repeated", "records", "retained", "sessions")

    def __init__(self) -> None:
        # Upper bound of the number of changed fields.
        self.records = 0
        self.sessions: dict[str, SessionChanges] = {}
        self.retained: dict[str, Message | None] = {}
        # Shared messages that no session waits for any more.
        self.freed: set[int] = set()
        # Redis may have some of these changes already, so removed entries must be deleted there.
        self.is_repeated = False

    def __bool__(self) -> bool:
        """Return whether there is something to store."""
        return bool(self.sessions or self.retained or self.freed)

    def is_beyond(self, limit: int) -> bool:
        """Return whether more than ``limit`` fields change; counts only after so many records."""
        if self.records <= limit:
            return False
        fields = sum(len(one.fields) + len(one.queue) + 1 for one in self.sessions.values())
        self.records = fields + len(self.retained) + len(self.freed)
        return self.records > limit

    def put_behind(self, failed: Changes) -> None:
        """Merge earlier changes that failed, of which Redis may have some."""
        self.is_repeated = True
        self.records += failed.records
        self.freed |= failed.freed
        self.retained = failed.retained | self.retained
        for client_id, before in failed.sessions.items():
            after = self.of(client_id)
            if after.is_over:
                continue
            after.is_over = before.is_over
            after.is_new = after.is_new or before.is_new
            after.fields = before.fields | after.fields
            after.queue = before.queue | after.queue

    def of(self, client_id: str) -> SessionChanges:
        """Return the changes of a session; creates them if there are none."""
        found = self.sessions.get(client_id)
        if found is None:
            found = self.sessions[client_id] = SessionChanges()
        return found


def fold(changes: Changes, records: Iterable[Record]) -> None:
    """Add records to the changes, in order."""
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
        # Neither the message nor its identifier was ever stored.
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


# By type: this runs for every QoS 1 message, and a chain of comparisons is slower.
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
