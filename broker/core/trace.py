"""Traces: what happens to one client id, or to messages on one topic, told while it happens.

Nothing is told unless a watch is on. Then packets of watched clients and topics leave the fast
path, which has no hooks; other clients keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.core.subscribe.topic_tree import TopicTree

if TYPE_CHECKING:
    from broker.codec.reason_codes import ReasonCode
    from broker.core.counters import Drop
    from broker.core.message import Delivery, Message
    from broker.core.publish.fast_publish import Read, Stop
    from broker.core.sessions.session import Session
    from broker.filter.memberships import Slots

# Receivers of one message that are named.
NAMED_RECEIVERS: Final = 20
# Characters of a text from a client, such as a topic; bytes of a payload.
SHOWN_CHARACTERS: Final = 200
SHOWN_PAYLOAD: Final = 256
_PACKETS: Final = {
    0x40: "PUBACK", 0x50: "PUBREC", 0x60: "PUBREL", 0x70: "PUBCOMP", 0x80: "SUBSCRIBE",
    0xA0: "UNSUBSCRIBE", 0xC0: "PINGREQ", 0xE0: "DISCONNECT", 0xF0: "AUTH",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One line of a trace; ``payload``, of which the start is kept, is for those that want it."""

    time: float
    client: str | None
    user: str | None
    event: str
    fields: Mapping[str, Any]
    payload: bytes | None = field(default=None, repr=False)


class Watch:
    """A client id or a topic filter that is traced; ``sink`` gets each event."""

    __slots__ = ("_filter", "client_id", "sink")

    def __init__(
        self, client_id: str | None, topic_filter: str | None, sink: Callable[[TraceEvent], None]
    ) -> None:
        self.client_id = client_id
        self._filter: TopicTree | None = None
        if topic_filter is not None:
            self._filter = TopicTree()
            self._filter.entry_of(topic_filter)
        self.sink = sink

    def covers_topic(self, topic: str) -> bool:
        """Return whether messages on the topic are traced."""
        return self._filter is not None and any(True for _ in self._filter.match(topic))


class Trace:
    """All watches of a broker. ``is_on`` is asked before each call, and is false without any."""

    __slots__ = ("_clock", "_watches", "is_on")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._watches: list[Watch] = []
        self.is_on = False

    def add(self, watch: Watch) -> None:
        """Start to tell a watch what happens."""
        self._watches.append(watch)
        self.is_on = True

    def remove(self, watch: Watch) -> None:
        """Stop it."""
        self._watches.remove(watch)
        self.is_on = bool(self._watches)

    def covers_client(self, client_id: str) -> bool:
        """Return whether a client id is traced."""
        return any(one.client_id == client_id for one in self._watches)

    @property
    def covers_clients(self) -> bool:
        """Whether any client id is traced."""
        return any(one.client_id is not None for one in self._watches)

    def covers_topic(self, topic: str) -> bool:
        """Return whether messages on the topic are traced."""
        return any(one.covers_topic(topic) for one in self._watches)

    def received(self, session: Session, first: int, size: int) -> None:
        """Tell of a packet of a client other than PUBLISH."""
        name = _PACKETS.get(first & 0xF0, hex(first))
        self._tell(self._of(session), session, f"received {name}", {"bytes": size})

    def published(
        self,
        publisher: Session,
        message: Message,
        receivers: int,
        reason: ReasonCode,
        text: str | None,
    ) -> None:
        """Tell of a PUBLISH of a client: how many it went to, or why to none."""
        watches = self._of(publisher, message)
        if watches:
            fields = {"receivers": receivers, "reason": f"0x{int(reason):02x}"}
            why = {} if text is None else {"why": text}
            event = "refused PUBLISH" if reason.is_error else "received PUBLISH"
            self._tell(watches, publisher, event, _about(message) | fields | why, message)

    def routed(self, message: Message, receivers: Collection[Session]) -> None:
        """Tell to whom a message on a topic goes."""
        watches = self._of(None, message)
        if watches:
            named = [one.client_id for one in islice(receivers, NAMED_RECEIVERS)]
            fields = _about(message) | {"receivers": len(receivers), "clients": named}
            self._tell(watches, None, "routed PUBLISH", fields, message)

    def sent(self, session: Session, delivery: Delivery, size: int, *, again: bool) -> None:
        """Tell of a PUBLISH that goes to a client, with the nsids that matched."""
        watches = self._of(session)
        if watches:
            terms = [one.terms for one in delivery.subscriptions]
            nsids = [one.nsid for one in terms if one.nsid is not None]
            fields = {"qos": delivery.qos, "nsids": nsids, "bytes": size}
            event = "sent PUBLISH again" if again else "sent PUBLISH"
            message = delivery.message
            self._tell(watches, session, event, _about(message) | fields, message)

    def queued(self, session: Session, delivery: Delivery) -> None:
        """Tell of a message that waits for a client."""
        fields = {"qos": delivery.qos, "waiting": len(session.outgoing.queue)}
        self._tell_of_message(session, delivery.message, "queued", fields)

    def not_kept(self, session: Session, message: Message) -> None:
        """Tell of a message of QoS 0 for a client that is away."""
        self._tell_of_message(session, message, "not kept", {"cause": "away"})

    def dropped(self, session: Session, message: Message, cause: Drop) -> None:
        """Tell of a message that a client does not get."""
        self._tell_of_message(session, message, "dropped", {"cause": cause.value})

    def answered(
        self, session: Session, packet: str, codes: Sequence[tuple[str, int]], text: str | None
    ) -> None:
        """Tell of SUBACK or UNSUBACK: each filter with its reason code."""
        watches = self._of(session)
        if watches:
            shown = {_shown(name): f"0x{int(code):02x}" for name, code in codes[:NAMED_RECEIVERS]}
            fields: dict[str, Any] = {"filters": len(codes), "codes": shown}
            why = {} if text is None else {"why": text}
            self._tell(watches, session, f"sent {packet}", fields | why)

    def _of(self, session: Session | None, message: Message | None = None) -> list[Watch]:
        """Return the watches of the client, or of the topic of the message."""
        client_id = None if session is None else session.client_id
        return [
            one
            for one in self._watches
            if (client_id is not None and one.client_id == client_id)
            or (message is not None and one.covers_topic(message.topic))
        ]

    def _tell_of_message(
        self, session: Session, message: Message, event: str, fields: dict[str, Any]
    ) -> None:
        watches = self._of(session, message)
        if watches:
            self._tell(watches, session, event, _about(message) | fields, message)

    def _tell(
        self,
        watches: Sequence[Watch],
        session: Session | None,
        event: str,
        fields: dict[str, Any],
        message: Message | None = None,
    ) -> None:
        client_id, user = None, None
        if session is not None:
            client_id, user = session.client_id, session.identity.user_name
        # An event may wait for a slow reader: it must not hold a payload that no limit counts.
        payload = None if message is None else message.payload[:SHOWN_PAYLOAD]
        told = TraceEvent(self._clock(), client_id, user, event, fields, payload)
        for watch in watches:
            watch.sink(told)


class FastPath(Protocol):
    """Takes reads as ``FastPublisher.run`` does."""

    def run(
        self, reads: Iterator[Read], position: int = 0, found: Mapping[int, Slots] | None = None
    ) -> Stop | None:
        """Return the first read that is not for this path, and a position in it."""


class TracingFastPath:
    """The fast path while clients are traced: it leaves their packets to the general path."""

    __slots__ = ("_fast",)

    def __init__(self, fast: FastPath) -> None:
        self._fast = fast

    def run(
        self, reads: Iterator[Read], position: int = 0, found: Mapping[int, Slots] | None = None
    ) -> Stop | None:
        """Take reads one by one, up to the first of a traced client."""
        for connection, data in reads:
            session = connection.session
            if session is not None and session.is_traced:
                return connection, data, position
            stop = self._fast.run(iter(((connection, data),)), position, found)
            if stop is not None:
                return stop
            position = 0
        return None


def _about(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "topic": _shown(message.topic),
        "qos": message.qos,
        "retain": message.retain,
        "payloadBytes": len(message.payload),
    }
    return fields if message.peid is None else fields | {"peid": str(message.peid)}


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
