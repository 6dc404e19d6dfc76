"""Copies of a message for receivers without aliases, packet limit or rules.

Receivers of one message mostly get the same bytes, so the last are remembered: here and not with
the message, which may be kept for long and would take twice its bytes.
"""

from __future__ import annotations

from broker.core.core_state import CoreState
from broker.core.message import LARGE_PAYLOAD, Delivery, Message
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.subscription import Subscription


class PlainCopies:
    """Sends copies of QoS 0 and 1, with properties or, to clients of MQTT 3, without."""

    __slots__ = ("_copy", "_copy_3", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._copy: tuple[Message, tuple[int, bytes], tuple[bytes, bytes]] | None = None
        self._copy_3: tuple[Message, int, tuple[bytes, bytes]] | None = None

    def send(
        self,
        session: Session,
        connection: Connection,
        message: Message,
        subscriptions: tuple[Subscription, ...],
        qos: int,
        *,
        retain: bool,
    ) -> None:
        """Send a message at once; ``connection`` is ``direct`` or ``direct_3`` of the session."""
        first = 0x30 | qos << 1 | retain
        if connection.has_properties:
            extra = subscriptions[0].extra
            if len(subscriptions) > 1:
                extra = b"".join([one.extra for one in subscriptions])
            before, after = self._parts(message, first, extra)
        else:
            before, after = self._parts_3(message, first)
        out = connection.out
        if not out:
            self._state.outbox.writes.append(connection)
        size = len(before) + len(after)
        if qos:
            delivery = Delivery(message, qos, subscriptions, retain=retain)
            if session.is_recorded:
                session.record_waiting(self._state.journal, delivery)
            session.outgoing.start(delivery, queued=False)
            out += (before, delivery.packet_id.to_bytes(2, "big"), after)
            size += 2
        else:
            out += (before, after)
        if len(message.payload) > LARGE_PAYLOAD:
            out.append(message.payload)
            size += len(message.payload)
        counters = self._state.counters
        counters.publishes_sent += 1
        counters.publish_bytes_sent += size

    def _parts(self, message: Message, first: int, extra: bytes) -> tuple[bytes, bytes]:
        """Return the packet of a message, in two parts."""
        known = self._copy
        if known is not None and known[0] is message and known[1] == (first, extra):
            return known[2]
        if message.expires_at is not None:
            return message.packet_parts(first, extra, self._state.clock())
        parts = message.packet_parts(first, extra, 0.0)
        self._copy = (message, (first, extra), parts)
        return parts

    def _parts_3(self, message: Message, first: int) -> tuple[bytes, bytes]:
        """Return the same without properties."""
        known = self._copy_3
        if known is not None and known[0] is message and known[1] == first:
            return known[2]
        parts = message.parts_without_properties(first)
        self._copy_3 = (message, first, parts)
        return parts
