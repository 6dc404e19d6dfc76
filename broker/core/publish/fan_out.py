"""Copies of the packets of the fast path for all their receivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from broker.codec.publish import PEID_VALUE_AT, QOS_0_HEADERS, SHORT_LENGTHS
from broker.core.core_state import CoreState
from broker.core.message import Message
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.router import MANY_SLOTS
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.subscribe.subscription import Subscription
from broker.filter.memberships import Slots

# Returns the slots of a peid; None: they must be asked for.
LookUpFunction: TypeAlias = Callable[[int], Slots | None]


class FanOut:
    """Copies one packet of the fast path to all its receivers."""

    __slots__ = ("_message_delivery", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery

    def deliver(
        self, publisher: Session, route: Route, slots: Slots | None, packet: bytes, at: int
    ) -> int:
        """Return the number of copies made, or -1 if the packet must take the general path.

        ``at`` is where the content of the properties begins.
        """
        state, counters = self._state, self._state.counters
        if slots is None or len(slots) > MANY_SLOTS or counters.work >= counters.work_limit:
            return -1
        hits = simple_hits(state, route, slots)
        if hits is None:
            return -1
        counters.work += len(hits)
        readers = route.readers if state.access.is_restricted else None
        # Receivers that hold the same neighborhood under the same number get the same bytes.
        extra, copy = b"", packet
        writes, others = state.outbox.writes, []
        copies = sent_bytes = 0
        # Without calls: one for each receiver would cost a tenth of the whole.
        for hit in hits:
            receiver = hit.session
            if hit.no_local and receiver is publisher:
                continue
            connection = receiver.direct
            if connection is None or (readers is not None and receiver not in readers):
                others.append(hit)
                continue
            if hit.extra != extra:
                extra = hit.extra
                copy = _with_extra(route, packet, at, extra) if extra else packet
            out = connection.out
            if not out:
                writes.append(connection)
            out.append(copy)
            sent_bytes += len(copy)
            copies += 1
        counters.publish_bytes_sent += sent_bytes
        return copies + self._deliver_others(others, route, packet, at) if others else copies

    def _deliver_others(
        self, hits: list[Subscription], route: Route, packet: bytes, at: int
    ) -> int:
        """Deliver to receivers of MQTT 3 and to those that take no plain copy.

        Returns the number of plain copies made.
        """
        state = self._state
        readers = route.readers if state.access.is_restricted else None
        message: Message | None = None
        copy = b""
        copies = 0
        for hit in hits:
            receiver = hit.session
            connection = receiver.direct_3
            if connection is None or (readers is not None and receiver not in readers):
                message = message or _message(route, packet, at)
                self._message_delivery.deliver(receiver, message, (hit,), retain=False)
                if self._message_delivery.is_reader(receiver, route.topic):
                    state.routes.add_reader(route, receiver)
                continue
            copy = copy or _without_properties(route, packet, at)
            if not connection.out:
                state.outbox.writes.append(connection)
            connection.out.append(copy)
            state.counters.publish_bytes_sent += len(copy)
            copies += 1
        return copies

    def deliver_content(
        self, publisher: Session, route: Route, look_up: LookUpFunction, payload: bytes
    ) -> int:
        """Deliver a message without properties, whose entity, if any, is named by its topic.

        Returns the same. Receivers of MQTT 5 get the entity as a property.
        """
        slots: Slots | None = ()
        if route.gateway_peid is not None and route.spatial:
            slots = look_up(route.gateway_peid)
        if not slots and not route.plain and slots is not None:
            return 0
        topic_field, named = route.topic_field, route.peid_property
        header = QOS_0_HEADERS[len(topic_field) + 1 + len(named) + len(payload)]
        packet = b"".join((header, topic_field, SHORT_LENGTHS[len(named)], named, payload))
        return self.deliver(publisher, route, slots, packet, len(header) + len(topic_field) + 1)


def simple_hits(
    state: CoreState, route: Route, slots: Slots, publisher: Session | None = None
) -> list[Subscription] | None:
    """Return the subscriptions that match; None: some share a session, or are the publisher's."""
    slot_owners, homes, plain = state.slots.slot_owners, route.spatial, route.plain
    hits = [owner.subscription for s in slots if (owner := slot_owners[s]).home in homes]
    matches = len(hits)
    for entry in plain:
        hits += entry.plain.values()
    # Under one filter each session stands once; otherwise all are compared.
    is_mixed = matches > 1 or len(plain) > 1 or (matches and plain)
    if is_mixed and len({hit.session for hit in hits}) != len(hits):
        return None
    is_subscriber = publisher is not None and publisher.subscriptions
    if is_subscriber and any(hit.session is publisher for hit in hits):
        return None
    state.counters.matches += matches
    return hits


def _message(route: Route, packet: bytes, at: int) -> Message:
    """Return the packet as a message, for receivers that take no plain copy."""
    payload_at = at + packet[at - 1]
    digits = packet[at + PEID_VALUE_AT : payload_at]
    return Message(
        route.topic,
        packet[payload_at:],
        properties=packet[at:payload_at],
        peid=int(digits) if digits else route.gateway_peid,
        topic_field=route.topic_field,
    )


def _with_extra(route: Route, packet: bytes, at: int, extra: bytes) -> bytes:
    remaining = len(route.topic_field) + 1 + len(extra) + len(packet) - at
    length = SHORT_LENGTHS[packet[at - 1] + len(extra)]
    return b"".join((QOS_0_HEADERS[remaining], route.topic_field, length, extra, packet[at:]))


def _without_properties(route: Route, packet: bytes, at: int) -> bytes:
    """Return the packet for a client of MQTT 3."""
    payload_at = at + packet[at - 1]
    remaining = len(route.topic_field) + len(packet) - payload_at
    return b"".join((QOS_0_HEADERS[remaining], route.topic_field, packet[payload_at:]))
