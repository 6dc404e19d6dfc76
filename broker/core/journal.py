"""The journal: records, in order, of everything that must survive a kill of the broker.

Records of one call into the core belong together and are stored in one step. A packet that
promises something (an acknowledgement, a QoS 2 PUBLISH, a PUBREL) is held back until every
record before it is stored (``OutputGate``). Without a store nothing is recorded or held back.

``client_id`` is the name of the session in every record: ``Identity.session_name``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from broker.core.message import Message
from broker.core.plain_delivery import PLACE, RECORD, PlainDelivery, plain_message
from broker.core.subscribe.subscription import SubscriptionKey, SubscriptionTerms

if TYPE_CHECKING:
    from broker.core.sessions.session import Session


@dataclass(frozen=True, slots=True)
class Will:
    """A message to send when its client is gone for ``delay`` seconds."""

    message: Message
    delay: int


@dataclass(frozen=True, slots=True)
class SessionSaved:
    """The session exists; ``expires_at`` is None while its client is connected.

    Replaces an earlier record of the same client id, and nothing else of the session.
    """

    client_id: str
    user_name: str | None
    expiry_interval: int
    expires_at: float | None
    will: Will | None
    will_at: float | None = None
    # The address that an anonymous client's quota counts for.
    host: str | None = None


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session and everything recorded under its client id is gone."""

    client_id: str


@dataclass(frozen=True, slots=True)
class SubscriptionSaved:
    """Replaces the subscription with the same key."""

    client_id: str
    terms: SubscriptionTerms


@dataclass(frozen=True, slots=True)
class SubscriptionRemoved:
    """The subscription is no longer there."""

    client_id: str
    key: SubscriptionKey


@dataclass(frozen=True, slots=True)
class MessageQueued:
    """A QoS 1 or 2 message waits for the client, at ``position`` in its order.

    Receivers of one PUBLISH share the ``message`` object: a store may keep it once.
    """

    client_id: str
    position: int
    message: Message
    qos: int
    retain: bool
    keys: tuple[SubscriptionKey, ...]


@dataclass(frozen=True, slots=True)
class MessageSent:
    """A QoS 2 message is about to be sent under a packet identifier that it keeps."""

    client_id: str
    position: int
    packet_id: int


@dataclass(frozen=True, slots=True)
class MessageReleased:
    """The client has the QoS 2 message: from now on only PUBREL is sent for it."""

    client_id: str
    position: int


@dataclass(frozen=True, slots=True)
class MessageDone:
    """The message is acknowledged, expired or no longer wanted."""

    client_id: str
    position: int


@dataclass(frozen=True, slots=True)
class PacketReceived:
    """A QoS 2 PUBLISH of the client is taken over; the same identifier again is a repetition."""

    client_id: str
    packet_id: int


@dataclass(frozen=True, slots=True)
class PacketReleased:
    """The client may use the identifier for another message."""

    client_id: str
    packet_id: int


@dataclass(frozen=True, slots=True)
class RetainedSaved:
    """Replaces the retained message of its topic."""

    message: Message


@dataclass(frozen=True, slots=True)
class RetainedRemoved:
    """The topic has no retained message."""

    topic: str


Record: TypeAlias = (
    SessionSaved
    | SessionEnded
    | SubscriptionSaved
    | SubscriptionRemoved
    | MessageQueued
    | MessageSent
    | MessageReleased
    | MessageDone
    | PacketReceived
    | PacketReleased
    | RetainedSaved
    | RetainedRemoved
)


class Journal:
    """Numbers the records; positions count them from 1, 0 stands for "nothing".

    Deliveries of the fast path wait in ``unsaved`` for their PUBACK, because one that has it need
    not be stored. They become records when they are old (``flush_old``), or when any other
    record is written, so that the order is kept.
    """

    __slots__ = ("_old", "committed", "enabled", "position", "records", "unsaved")

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self.position = 0
        self.committed = 0
        self.records: list[Record] = []
        # By position, in order.
        self.unsaved: dict[int, tuple[Session, PlainDelivery]] = {}
        self._old = 0

    def write(self, record: Record) -> None:
        """Add a record; callers look at ``enabled`` first, so that none is built in vain."""
        if self.unsaved:
            self._flush(self.position)
        self.records.append(record)
        self.position += 1

    def take(self) -> tuple[int, list[Record]]:
        """Return the position to commit and all records not taken yet, for the store."""
        taken, self.records = self.records, []
        return self.settled, taken

    @property
    def settled(self) -> int:
        """The position up to which nothing waits for a PUBACK."""
        return next(iter(self.unsaved)) - 1 if self.unsaved else self.position

    def write_plain(self, session: Session, plain: PlainDelivery) -> None:
        """Note a delivery of the fast path, which has the next position."""
        self.position += 1
        self.unsaved[self.position] = (session, plain)

    def plain_done(self, session: Session, plain: PlainDelivery) -> None:
        """Note its PUBACK: it is removed from the store, if it is there."""
        if self.unsaved.pop(plain[RECORD], None) is None:
            # Nothing depends on the order of this record: what it removes was written before.
            self.records.append(MessageDone(session.name, plain[PLACE]))
            self.position += 1

    def flush_old(self) -> bool:
        """Make records of what has waited since the last call; return whether more waits."""
        self._flush(self._old)
        self._old = self.position
        return bool(self.unsaved)

    def flush(self) -> None:
        """Make records of all that waits."""
        self._flush(self.position)

    def _flush(self, last: int) -> None:
        # Receivers of one message have the same bytes, and get the same object.
        messages: dict[int, Message] = {}
        done = 0
        for position, (session, plain) in self.unsaved.items():
            if position > last:
                break
            content, length, texts, subscription, _, place, _ = plain
            message = messages.get(id(content))
            if message is None:
                message = messages[id(content)] = plain_message(texts, content, length)
            keys = (subscription.terms.key,)
            queued = MessageQueued(session.name, place, message, qos=1, retain=False, keys=keys)
            self.records.append(queued)
            done += 1
        if done == len(self.unsaved):
            self.unsaved.clear()
        else:
            for position in list(islice(self.unsaved, done)):
                del self.unsaved[position]
