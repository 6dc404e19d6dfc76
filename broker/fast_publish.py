"""The hot path: QoS 0 PUBLISH packets in a row, scanned and spliced, never parsed.

It does exactly what ``publishing`` does, for packets whose properties are empty or one peid
and whose topic has a route without share groups. At the first other packet it stops. Tests
hold both ways equal; docs/decisions/0061-two-ways-to-publish.md says what this one gains.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

from broker.codec.framing import SHORT_VARINTS
from broker.codec.publish import MAX_PEID_DIGITS, PEID_PREFIX
from broker.connection import Connection
from broker.core_state import CoreState
from broker.courier import Courier
from broker.memberships import Slots
from broker.message import Message
from broker.routes import Route
from broker.session import Session
from broker.subscription import Subscription

QOS_0: Final = 0x30
# First byte and remaining length of a QoS 0 PUBLISH.
_HEADERS: Final = tuple(bytes((QOS_0,)) + length for length in SHORT_VARINTS)
# Property lengths with our own properties added: always one byte.
_LENGTHS: Final = SHORT_VARINTS[:0x80]
# Longer packets go the general way, so that lengths stay in the table.
_MOST_REMAINING: Final = 0x2000
_VALUE_AT: Final = len(PEID_PREFIX) + 1
# One digit less than the longest: any such number is a peid.
_MOST_PROPERTIES: Final = _VALUE_AT + MAX_PEID_DIGITS - 1
# More slots than this are compared with the topic the clever way, by the router.
_MANY_SLOTS: Final = 32
# The filter is timed once in so many runs.
_SAMPLED_RUNS: Final = 64


class FastPublisher:
    """Works off runs of plain QoS 0 PUBLISH packets."""

    __slots__ = ("_courier", "_is_restricted", "_occupants", "_routes", "_runs", "_state")

    def __init__(self, state: CoreState, courier: Courier) -> None:
        self._state = state
        self._courier = courier
        # The same objects as long as the broker lives.
        self._routes = state.routes.by_topic
        self._occupants = state.slots.occupants
        self._is_restricted = state.access.is_restricted
        self._runs = 0

    def run(self, connection: Connection, session: Session, data: bytes, position: int) -> int:  # noqa: C901, PLR0912, PLR0915 - one loop without calls: each would cost a tenth of the whole
        """Where the first packet stands that is not for this way, or is not complete."""
        state = self._state
        routes, occupants, is_restricted = self._routes, self._occupants, self._is_restricted
        look_up: Callable[[int], Slots | None] = state.memberships.look_up
        if connection.found:
            look_up = self._look_up_for(connection)
        may_publish = connection.may_publish
        most_remaining = connection.packet_limit
        if most_remaining > _MOST_REMAINING:  # noqa: PLR1730 - a call for every read
            most_remaining = _MOST_REMAINING
        writes = state.outbox.writes
        start, size = position, len(data)
        received = sent = sent_bytes = spatial = matches = 0
        peid, topic = -1, b""
        while position + 5 < size and data[position] == QOS_0:
            # The fixed header.
            remaining = data[position + 1]
            body = position + 2
            if remaining > 0x7F:
                if data[body] > 0x7F or not data[body]:
                    break
                remaining = remaining & 0x7F | data[body] << 7
                body += 1
            end = body + remaining
            if end > size or remaining >= most_remaining:
                break
            # The topic.
            at = body + 2 + (data[body] << 8 | data[body + 1])
            if at >= end:
                break
            topic = data[body + 2 : at]
            route = routes.get(topic)
            if route is None or not route.is_simple or (is_restricted and topic not in may_publish):
                break
            # The properties: none, or one peid of less than 19 digits.
            length = data[at]
            at += 1
            if length:
                digits = data[at + _VALUE_AT : at + length]
                if (
                    not _VALUE_AT <= length < _MOST_PROPERTIES
                    or at + length > end
                    or data[at : at + _VALUE_AT - 1] != PEID_PREFIX
                    or data[at + _VALUE_AT - 1] != length - _VALUE_AT
                    or not digits.isdigit()
                ):
                    break
                peid = int(digits)
            elif route.gateway_peid is not None:
                peid = route.gateway_peid
            else:
                peid = -1
            slots: Slots | None = look_up(peid) if peid >= 0 and route.spatial else ()
            # The copies: nearly always none or one.
            if route.plain or slots is None or len(slots) > 1:
                copies = self._fan_out(session, route, slots, data[position:end], at - position)
                if copies < 0:
                    break
                sent += copies
            elif slots and (hit := occupants[slots[0]]).home in route.spatial:
                receiver = hit.session
                link = receiver.direct
                if (
                    link is None
                    or hit.no_local
                    or (is_restricted and receiver not in route.readers)
                ):
                    sent += self._fan_out(session, route, slots, data[position:end], at - position)
                else:
                    out = link.out
                    if not out:
                        writes.append(link)
                    extra = hit.extra
                    added = len(extra)
                    out += (
                        _HEADERS[remaining + added],
                        route.topic_field,
                        _LENGTHS[length + added],
                        extra,
                        data[at:end],
                    )
                    matches += 1
                    sent_bytes += end - position + added
            received += 1
            if peid >= 0:
                spatial += 1
            position = end
        if received:
            counters = state.counters
            counters.publishes_received += received
            counters.packets_received += received
            counters.publish_bytes_received += position - start
            counters.publishes_sent += matches + sent
            counters.publish_bytes_sent += sent_bytes
            counters.spatial_publishes += spatial
            counters.matches += matches
            self._runs += 1
            if peid >= 0 and self._runs % _SAMPLED_RUNS == 0:
                self._time_filter(topic, peid)
        return position

    def _look_up_for(self, connection: Connection) -> Callable[[int], Slots | None]:
        """The look-up, with the answers that this connection has waited for before it."""
        look_up = self._state.memberships.look_up
        found = connection.found
        return lambda peid: look_up(peid) if (slots := found.get(peid)) is None else slots

    def _fan_out(
        self, publisher: Session, route: Route, slots: Slots | None, packet: bytes, at: int
    ) -> int:
        """Copies of one packet for any number of receivers: how many, or -1 if it is not for us.

        ``at`` is where the content of the properties begins.
        """
        if slots is None or len(slots) > _MANY_SLOTS:
            return -1
        hits = self._hits(route, slots)
        if hits is None:
            return -1
        state = self._state
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
                self._courier.bring(receiver, message, (hit,), retain=False)
                if self._courier.is_reader(receiver, route.topic):
                    route.readers.add(receiver)
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
        occupants, homes = self._state.slots.occupants, route.spatial
        hits = [hit for slot in slots if (hit := occupants[slot]).home in homes]
        matches = len(hits)
        for node in route.plain:
            hits += node.plain.values()
        # Under one filter each session stands once; otherwise it must be looked at.
        is_mixed = matches > 1 or len(route.plain) > 1 or (matches and route.plain)
        if is_mixed and len({hit.session for hit in hits}) != len(hits):
            return None
        self._state.counters.matches += matches
        return hits

    def _time_filter(self, topic: bytes, peid: int) -> None:
        """Run the filter once more for one message, to see what it costs."""
        state = self._state
        began = perf_counter()
        route = state.routes.by_topic.get(topic)
        slots = state.memberships.look_up(peid)
        if route is not None and slots:
            _ = [
                hit for slot in slots if (hit := state.slots.occupants[slot]).home in route.spatial
            ]
        state.counters.filter_times.append(perf_counter() - began)


def _message(route: Route, packet: bytes, at: int) -> Message:
    """The packet as a message, for receivers that take the long way."""
    payload_at = at + packet[at - 1]
    digits = packet[at + _VALUE_AT : payload_at]
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
    return b"".join((_HEADERS[remaining], route.topic_field, _LENGTHS[length], extra, packet[at:]))
