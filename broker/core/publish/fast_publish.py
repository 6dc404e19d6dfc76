"""The fast path: QoS 0 PUBLISH packets in a row, scanned and copied, never parsed.

It does exactly what ``general_publish`` does, for packets whose properties are empty or one peid
and whose topic has a route without share groups. At the first other packet it stops. Tests
hold both paths equal; docs/decisions/0061-two-ways-to-publish.md says what this one gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from broker.codec.publish import (
    MAX_PEID_DIGITS,
    PEID_PREFIX,
    PEID_VALUE_AT,
    QOS_0,
    QOS_0_HEADERS,
    SHORT_LENGTHS,
)
from broker.core.core_state import CoreState
from broker.core.counters import FilterSampler
from broker.core.limits import BrokerLimits
from broker.core.publish.router import FanOut, LookUpFunction
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.filter.memberships import SlotOwner, Slots

# Bytes of a connection, and a position in them.
Read: TypeAlias = tuple[Connection, bytes]
Stop: TypeAlias = tuple[Connection, bytes, int]


class AcknowledgedRuns(Protocol):
    """The port for packets of QoS 1 in a row: ``fast_paths`` has what takes them."""

    def run(self, connection: Connection, session: Session, data: bytes, position: int) -> int:
        """Take PUBLISH and PUBACK packets; return where the first begins that is left."""


# Longer packets take the general path, so that lengths stay in the table.
MOST_BYTES: Final = 0x2000
# The longest fixed header of such a packet. The packet limit counts it; packets that come within
# so many bytes of the limit are left to the general path, which counts exactly.
MOST_HEADER: Final = 3
# One digit less than the longest: any such number is a peid.
MOST_PROPERTIES: Final = PEID_VALUE_AT + MAX_PEID_DIGITS - 1


class FastPublisher:
    """Takes runs of plain QoS 0 PUBLISH packets."""

    __slots__ = (
        "_acknowledged", "_fan_out", "_filter_sampler", "_is_restricted", "_most_remaining",
        "_routes", "_state",
    )  # fmt: skip

    def __init__(
        self,
        state: CoreState,
        fan_out: FanOut,
        filter_sampler: FilterSampler,
        acknowledged: AcknowledgedRuns,
    ) -> None:
        self._state = state
        self._acknowledged = acknowledged
        self._fan_out = fan_out
        self._filter_sampler = filter_sampler
        # The same object as long as the broker lives.
        self._routes = state.routes.by_topic
        self._is_restricted = state.access.is_restricted
        self._most_remaining = most_remaining(state.limits)

    def run(  # noqa: C901, PLR0912, PLR0915 - one loop without calls: each would cost a tenth of the whole
        self, reads: Iterator[Read], position: int = 0, found: Mapping[int, Slots] | None = None
    ) -> Stop | None:
        """Take reads from the iterator as long as they are plain from end to end.

        Return the first that is not, and the position of its first packet that is not for this
        path, or is not complete. ``position`` is where to begin in the first read, ``found`` are
        memberships that its connection has waited for.
        """
        state = self._state
        routes, is_restricted = self._routes, self._is_restricted
        most_remaining = self._most_remaining
        look_up = state.memberships.look_up_function
        if found:
            look_up = look_up_in_both(found, look_up)
        writes, now = state.outbox.writes, state.clock()
        received = bytes_taken = sent = sent_bytes = spatial = matches = 0
        peid, topic = -1, b""
        stop: Stop | None = None
        for connection, data in reads:
            session = connection.fast_session
            if session is None or connection.is_blocked or connection.inbox.pending:
                stop = connection, data, position
                break
            connection.last_seen = now
            start, size = position, len(data)
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
                if end > size or remaining > most_remaining:
                    break
                # The topic.
                at = body + 2 + (data[body] << 8 | data[body + 1])
                if at >= end:
                    break
                topic = data[body + 2 : at]
                route = routes.get(topic)
                if (
                    route is None
                    or not route.is_simple
                    or (is_restricted and topic not in connection.may_publish)
                ):
                    break
                # The properties: none, or one peid of less than 19 digits.
                length = data[at]
                gateway_peid = route.gateway_peid
                at += 1
                if length:
                    digits = data[at + PEID_VALUE_AT : at + length]
                    if (
                        not PEID_VALUE_AT <= length < MOST_PROPERTIES
                        or at + length > end
                        or data[at : at + PEID_VALUE_AT - 1] != PEID_PREFIX
                        or data[at + PEID_VALUE_AT - 1] != length - PEID_VALUE_AT
                        or not digits.isdigit()
                    ):
                        break
                    peid = int(digits)
                    if gateway_peid is not None and gateway_peid != peid:
                        break
                elif gateway_peid is not None:
                    # The topic names the entity, which its receivers must be told.
                    copies = self._fan_out.deliver_content(session, route, look_up, data[at:end])
                    if copies < 0:
                        break
                    sent += copies
                    received += 1
                    spatial += 1
                    peid, position = gateway_peid, end
                    continue
                else:
                    peid = -1
                slots: Slots | None = look_up(peid) if peid >= 0 and route.spatial else ()
                # The copies: nearly always none or one.
                if type(slots) is not SlotOwner or route.plain:
                    if slots is None or slots or route.plain:
                        copies = self._fan_out.deliver(
                            session, route, slots, data[position:end], at - position
                        )
                        if copies < 0:
                            break
                        sent += copies
                elif slots.home in route.spatial:
                    receiver, hit = slots.session, slots.subscription
                    target = receiver.direct
                    if (
                        target is None
                        or hit.no_local
                        or (is_restricted and receiver not in route.readers)
                    ):
                        copies = self._fan_out.deliver(
                            session, route, slots, data[position:end], at - position
                        )
                        if copies < 0:
                            break
                        sent += copies
                    else:
                        out = target.out
                        if not out:
                            writes.append(target)
                        extra = hit.extra
                        added = len(extra)
                        out += (
                            QOS_0_HEADERS[remaining + added],
                            route.topic_field,
                            SHORT_LENGTHS[length + added],
                            extra,
                            data[at:end],
                        )
                        matches += 1
                        sent_bytes += end - position + added
                received += 1
                if peid >= 0:
                    spatial += 1
                position = end
            bytes_taken += position - start
            if position < size and data[position] != QOS_0:
                position = self._acknowledged.run(connection, session, data, position)
            if position < size:
                stop = connection, data, position
                break
            position = 0
        if received:
            counters = state.counters
            counters.publishes_received += received
            counters.packets_received += received
            counters.publish_bytes_received += bytes_taken
            counters.publishes_sent += matches + sent
            counters.publish_bytes_sent += sent_bytes
            counters.spatial_publishes += spatial
            counters.matches += matches
            if peid >= 0 and now >= self._filter_sampler.due:
                self._filter_sampler.take(topic, peid, now)
        return stop


def most_remaining(limits: BrokerLimits) -> int:
    """Return the largest remaining length that a fast path takes, of any connected client."""
    return min(limits.packet_bytes - MOST_HEADER, MOST_BYTES)


def look_up_in_both(found: Mapping[int, Slots], look_up: LookUpFunction) -> LookUpFunction:
    """Return a function that looks into memberships that were waited for, and then in all."""
    return lambda peid: look_up(peid) if (slots := found.get(peid)) is None else slots
