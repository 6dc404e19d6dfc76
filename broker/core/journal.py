"""The journal: records, in order, of everything that must survive a kill of the broker.

Records of one call into the core belong together and are stored in one step. A packet that
promises something (an acknowledgement, a QoS 2 PUBLISH, a PUBREL) is held back until every
record before it is stored (``OutputGate``). Without a store nothing is recorded or held back.

``client_id`` is the name of the session in every record: ``Identity.session_name``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from broker.core.message import Message
from broker.core.subscribe.subscription import SubscriptionKey, SubscriptionTerms


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
    """Numbers the records; positions count them from 1, 0 stands for "nothing"."""

    __slots__ = ("committed", "enabled", "position", "records")

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self.position = 0
        self.committed = 0
        self.records: list[Record] = []

    def write(self, record: Record) -> None:
        """Add a record; callers look at ``enabled`` first, so that none is built in vain."""
        self.records.append(record)
        self.position += 1

    def take(self) -> tuple[int, list[Record]]:
        """Return the position to commit and all records not taken yet, for the store."""
        taken, self.records = self.records, []
        return self.position, taken
