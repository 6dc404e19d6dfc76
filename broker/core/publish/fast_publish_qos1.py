"""The fast path of QoS 1: PUBLISH packets of any version, scanned and copied to all receivers.

It does what ``general_publish`` does, for the packets that ``fast_publish`` takes at QoS 0, if
they have receivers and the publisher is none of these. PUBACKs leave in one piece at the end of a
run. docs/decisions/0244-qos-1-without-objects.md says what this gains.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.codec.publish import PEID_PREFIX, PEID_VALUE_AT, QOS_1, QOS_1_HEADERS, SHORT_LENGTHS
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_MATCH, WORK_OF_A_PACKET, FilterSampler
from broker.core.message import SHORT_RECORD_BYTES
from broker.core.plain_delivery import plain_message
from broker.core.publish.fast_publish import MOST_PROPERTIES, look_up_in_both, most_remaining
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.publish_answers import PublishAnswers
from broker.core.publish.router import MANY_SLOTS, LookUpFunction, simple_hits
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.subscribe.subscription import Subscription
from broker.filter.memberships import SlotOwner, Slots

_PUBACK: Final = b"\x40\x02"
_NO_IDENTIFIER: Final = b"\x00\x00"
# A packet with its first copy.
_WORK: Final = WORK_OF_A_PACKET + WORK_OF_A_MATCH


class FastPublisherQos1:
    """Takes runs of plain QoS 1 PUBLISH packets of one connection."""

    __slots__ = (
        "_answers", "_fan_out", "_filter_sampler", "_is_restricted", "_most_remaining", "_routes",
        "_state",
    )  # fmt: skip

    def __init__(
        self,
        state: CoreState,
        fan_out: PlainFanOut,
        answers: PublishAnswers,
        filter_sampler: FilterSampler,
    ) -> None:
        self._state = state
        self._fan_out = fan_out
        self._answers = answers
        self._filter_sampler = filter_sampler
        self._routes = state.routes.by_topic
        self._is_restricted = state.access.is_restricted
        self._most_remaining = most_remaining(state.limits)

    def run(  # noqa: C901, PLR0912, PLR0915 - one loop without calls, as in fast_publish
        self, connection: Connection, session: Session, data: bytes, position: int
    ) -> int:
        """Take packets from ``position`` on; return where the first begins that it leaves."""
        state, routes, is_restricted = self._state, self._routes, self._is_restricted
        most_remaining, has_properties = self._most_remaining, connection.has_properties
        look_up: LookUpFunction = state.memberships.look_up_function
        if connection.found:
            look_up = look_up_in_both(connection.found, look_up)
        deliver = self._fan_out.deliver
        # The identifiers to acknowledge, each after the beginning of a PUBACK.
        answers: list[bytes] = []
        counters = state.counters
        # What is left of it when others get their turn is taken by the general path.
        work_left = (counters.work_limit - counters.work) // _WORK
        room = min(self._answers.room(connection, session), work_left)
        journal = state.journal
        # How many are acknowledged before the first that waits for the journal.
        unheld = 0
        is_held = bool(connection.promised)
        start, size = position, len(data)
        spatial = 0
        peid, topic = -1, b""
        while position + 6 < size and data[position] == QOS_1 and room > 0:
            # The fixed header.
            remaining = data[position + 1]
            body = position + 2
            if remaining > 0x7F:
                if data[body] > 0x7F or not data[body]:
                    break
                remaining = remaining & 0x7F | data[body] << 7
                body += 1
            end = body + remaining
            at = body + 2
            if end > size or at > end or remaining > most_remaining:
                break
            # The topic, and the packet identifier.
            at += data[body] << 8 | data[body + 1]
            topic = data[body + 2 : at]
            identifier = data[at : at + 2]
            at += 2
            route = routes.get(topic)
            if (
                at + has_properties > end
                or identifier == _NO_IDENTIFIER
                or route is None
                or not route.is_simple
                or (is_restricted and topic not in connection.may_publish)
            ):
                break
            # The properties: none, or one peid of less than 19 digits.
            length = 0
            if has_properties:
                length = data[at]
                at += 1
            peid = -1
            content = data[at:end]
            gateway_peid = route.gateway_peid
            if length:
                digits = content[PEID_VALUE_AT:length]
                if (
                    not PEID_VALUE_AT <= length < MOST_PROPERTIES
                    or at + length > end
                    or content[: PEID_VALUE_AT - 1] != PEID_PREFIX
                    or content[PEID_VALUE_AT - 1] != length - PEID_VALUE_AT
                    or not digits.isdigit()
                ):
                    break
                peid = int(digits)
                if gateway_peid is not None and gateway_peid != peid:
                    break
            elif gateway_peid is not None:
                # The topic names the entity, which receivers are told.
                peid, length = gateway_peid, len(route.peid_property)
                content = route.peid_property + content
            slots = look_up(peid) if peid >= 0 and route.spatial else ()
            if slots is None or not deliver(session, route, slots, content, length):
                break
            if not is_held and journal.position > journal.committed:
                is_held, unheld = True, len(answers) >> 1
            answers += (_PUBACK, identifier)
            room -= 1
            if peid >= 0:
                spatial += 1
            position = end
        if answers:
            received = len(answers) >> 1
            counters.work += received * _WORK
            counters.publishes_received += received
            counters.packets_received += received
            counters.publish_bytes_received += position - start
            counters.spatial_publishes += spatial
            held = received - unheld if is_held else 0
            if journal.unsaved:
                state.watch_unsaved()
            self._answers.answer_plain(connection, session, b"".join(answers), received, held)
            if spatial and peid >= 0:
                self._filter_sampler.look_at(topic, peid)
        return position


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

        Return False, with nothing done, if the packet must take the general path: for no session,
        one session by several subscriptions, for the publisher itself, or after much work.
        """
        state = self._state
        hits = self._hits(route, slots, publisher)
        if not hits:
            return False
        readers = route.readers if state.access.is_restricted else None
        writes, counters = state.outbox.writes, state.counters
        texts, topic_field = route.texts, route.topic_field
        size = route.delivery_bytes + len(content)
        # Without the properties that a subscription adds.
        remaining = len(topic_field) + 3 + len(content)
        message, journal, place, record = None, state.journal, 0, 0
        for hit in hits:
            receiver = hit.session
            if journal.enabled:
                place = record = 0
                if receiver.is_recorded:
                    place, record = receiver.last_position + 1, journal.position + 1
            plain = (content, length, texts, hit, size, place, record)
            target = receiver.direct or receiver.direct_3
            if (
                target is None
                or not hit.qos
                or hit.record_bytes > SHORT_RECORD_BYTES
                or (readers is not None and receiver not in readers)
                or not (packet_id := receiver.outgoing.start_plain(plain, size))
            ):
                message = message or plain_message(texts, content, length)
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

    def _hits(
        self, route: Route, slots: Slots, publisher: Session
    ) -> Iterable[Subscription] | None:
        """Return the subscriptions that match; none if the general path must find them."""
        state, counters = self._state, self._state.counters
        if type(slots) is SlotOwner and not route.plain:
            # Nearly always.
            if slots.home not in route.spatial or slots.session is publisher:
                return None
            counters.matches += 1
            return (slots.subscription,)
        if len(slots) > MANY_SLOTS or counters.work >= counters.work_limit:
            return None
        hits = simple_hits(state, route, slots, publisher)
        if hits:
            # The first is counted with its packet.
            counters.work += WORK_OF_A_MATCH * (len(hits) - 1)
        return hits
