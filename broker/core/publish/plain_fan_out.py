"""Copies of the packets of the fast path of QoS 1 for all their receivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.codec.publish import QOS_1_HEADERS, SHORT_LENGTHS
from broker.core.core_state import CoreState
from broker.core.message import SHORT_RECORD_BYTES
from broker.core.plain_delivery import plain_message
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.router import MANY_SLOTS
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.subscribe.subscription import Subscription
from broker.filter.memberships import SlotOwner, Slots

_NO_HITS: Final[tuple[Subscription, ...]] = ()


class PlainFanOut:
    """Writes one message to all its receivers, and notes it as in flight to each."""

    __slots__ = ("_message_delivery", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery

    def deliver(
        self, publisher: Session, route: Route, slots: Slots, content: bytes, length: int
    ) -> bool:
        """Deliver properties, of ``length`` bytes, and payload to every session that matches.

        Return False, with nothing done, if the packet must take the general path: for nobody, for
        one session by several subscriptions, for the publisher itself, or after much work.
        """
        state = self._state
        hits = self._hits(route, slots, publisher)
        if not hits:
            return False
        readers = route.readers if state.access.is_restricted else None
        writes, counters = state.outbox.writes, state.counters
        topic_field, size = route.topic_field, route.delivery_bytes + len(content)
        # Without the properties that a subscription adds.
        remaining = len(topic_field) + 3 + len(content)
        message = None
        journal, place, record = state.journal, 0, 0
        for hit in hits:
            receiver = hit.session
            if journal.enabled:
                place = record = 0
                if receiver.is_recorded:
                    place, record = receiver.last_position + 1, journal.position + 1
            plain = (content, length, route, hit, size, place, record)
            target = receiver.direct or receiver.direct_3
            if (
                target is None
                or not hit.qos
                or hit.record_bytes > SHORT_RECORD_BYTES
                or (readers is not None and receiver not in readers)
                or not (packet_id := receiver.outgoing.start_plain(plain, size))
            ):
                message = message or plain_message(route, content, length)
                self._message_delivery.deliver(receiver, message, (hit,), retain=False)
                if readers is not None and self._message_delivery.is_reader(receiver, route.topic):
                    state.routes.add_reader(route, receiver)
                continue
            if record:
                receiver.last_position = place
                journal.write_plain(receiver, plain)
            out = target.out
            if not out:
                writes.append(target)
            if target.has_properties:
                extra = hit.extra
                added = len(extra)
                header = QOS_1_HEADERS[remaining + added]
                out += (
                    header,
                    topic_field,
                    packet_id.to_bytes(2, "big"),
                    SHORT_LENGTHS[length + added],
                    extra,
                    content,
                )
                counters.publish_bytes_sent += len(header) + remaining + added
            else:
                header = QOS_1_HEADERS[remaining - 1 - length]
                out += (header, topic_field, packet_id.to_bytes(2, "big"), content[length:])
                counters.publish_bytes_sent += len(header) + remaining - 1 - length
            counters.publishes_sent += 1
        return True

    def _hits(self, route: Route, slots: Slots, publisher: Session) -> Iterable[Subscription]:
        """Return the subscriptions that match; none if the general path must find them."""
        state, counters, plain = self._state, self._state.counters, route.plain
        if type(slots) is SlotOwner and not plain:
            # Nearly always.
            if slots.home not in route.spatial or slots.session is publisher:
                return _NO_HITS
            counters.matches += 1
            return (slots.subscription,)
        if len(slots) > MANY_SLOTS or counters.work >= counters.work_limit:
            return _NO_HITS
        slot_owners, homes = state.slots.slot_owners, route.spatial
        hits = [owner.subscription for s in slots if (owner := slot_owners[s]).home in homes]
        matches = len(hits)
        for entry in plain:
            hits += entry.plain.values()
        # Under one filter each session stands once; otherwise all are compared.
        is_mixed = matches > 1 or len(plain) > 1 or (matches and plain)
        if is_mixed and len({hit.session for hit in hits}) != len(hits):
            return _NO_HITS
        if publisher.subscriptions and any(hit.session is publisher for hit in hits):
            return _NO_HITS
        counters.matches += matches
        counters.work += len(hits)
        return hits
