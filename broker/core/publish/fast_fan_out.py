"""The hot path's copies for any number of receivers, spliced from the packet as it came."""

from __future__ import annotations

from typing import Final

from broker.codec.framing import SHORT_VARINTS
from broker.codec.publish import PEID_PREFIX
from broker.core.core_state import CoreState
from broker.core.message import Message
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.routes import Route
from broker.core.sessions.session import Session
from broker.core.subscribe.subscription import Subscription
from broker.filter.memberships import Slots

QOS_0: Final = 0x30
# First byte and remaining length of a QoS 0 PUBLISH.
HEADERS: Final = tuple(bytes((QOS_0,)) + length for length in SHORT_VARINTS)
# Property lengths with our own properties added: always one byte.
LENGTHS: Final = SHORT_VARINTS[:0x80]
# Where the value stands in properties that are one peid.
VALUE_AT: Final = len(PEID_PREFIX) + 1
# More slots than this are compared with the topic the clever way, by the router.
_MANY_SLOTS: Final = 32


class FanOut:
    """Brings one plain packet to all that it is for."""

    __slots__ = ("_message_delivery", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery

    def deliver(
        self, publisher: Session, route: Route, slots: Slots | None, packet: bytes, at: int
    ) -> int:
        """Copies of one packet for any number of receivers: how many, or -1 if it is not for us.

        ``at`` is where the content of the properties begins.
        """
        state = self._state
        if slots is None or len(slots) > _MANY_SLOTS:
            return -1
        if state.counters.work >= state.counters.work_limit:
            return -1
        hits = self._hits(route, slots)
        if hits is None:
            return -1
        state.counters.work += len(hits)
        readers = route.readers if state.access.is_restricted else None
        message: Message | None = None
        # Receivers that hold the same neighborhood under the same number get the same bytes.
        extra, copy = b"", packet
        copies = 0
        for hit in hits:
            receiver = hit.session
            if hit.no_local and receiver is publisher:
                continue
            link = receiver.direct
            if link is None or (readers is not None and receiver not in readers):
                message = message or _message(route, packet, at)
                self._message_delivery.deliver(receiver, message, (hit,), retain=False)
                if self._message_delivery.is_reader(receiver, route.topic):
                    state.routes.add_reader(route, receiver)
                continue
            if hit.extra != extra:
                extra = hit.extra
                copy = _with_extra(route, packet, at, extra) if extra else packet
            if not link.out:
                state.outbox.writes.append(link)
            link.out.append(copy)
            copies += 1
            state.counters.publish_bytes_sent += len(copy)
        return copies

    def _hits(self, route: Route, slots: Slots) -> list[Subscription] | None:
        """The subscriptions that match, each of another session; None: some share a session."""
        slot_owners, homes = self._state.slots.slot_owners, route.spatial
        hits = [
            slot_owner.subscription
            for slot in slots
            if (slot_owner := slot_owners[slot]).home in homes
        ]
        matches = len(hits)
        for node in route.plain:
            hits += node.plain.values()
        # Under one filter each session stands once; otherwise it must be looked at.
        is_mixed = matches > 1 or len(route.plain) > 1 or (matches and route.plain)
        if is_mixed and len({hit.session for hit in hits}) != len(hits):
            return None
        self._state.counters.matches += matches
        return hits


def _message(route: Route, packet: bytes, at: int) -> Message:
    """The packet as a message, for receivers that take the long way."""
    payload_at = at + packet[at - 1]
    digits = packet[at + VALUE_AT : payload_at]
    return Message(
        route.topic,
        packet[payload_at:],
        properties=packet[at:payload_at],
        peid=int(digits) if digits else route.gateway_peid,
        topic_field=route.topic_field,
    )


def _with_extra(route: Route, packet: bytes, at: int, extra: bytes) -> bytes:
    remaining = len(route.topic_field) + 1 + len(extra) + len(packet) - at
    length = packet[at - 1] + len(extra)
    return b"".join((HEADERS[remaining], route.topic_field, LENGTHS[length], extra, packet[at:]))
