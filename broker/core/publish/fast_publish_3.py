"""The fast path of clients of MQTT 3: their QoS 0 packets in a row, copied with properties added.

It does what ``general_publish`` does, for packets whose topic has a route without share groups.
Their topic may name the entity by a gateway rule. At the first other packet it stops.
"""

from __future__ import annotations

from broker.codec.publish import QOS_0
from broker.core.core_state import CoreState
from broker.core.publish.fan_out import FanOut
from broker.core.publish.fast_publish import (
    look_up_in_both,
    most_remaining,
)
from broker.core.publish.filter_sampler import FilterSampler
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session


class FastPublisher3:
    """Takes runs of QoS 0 PUBLISH packets of MQTT 3.1.1 and 3.1."""

    __slots__ = ("_fan_out", "_filter_sampler", "_most_remaining", "_state")

    def __init__(self, state: CoreState, fan_out: FanOut, filter_sampler: FilterSampler) -> None:
        self._state = state
        self._fan_out = fan_out
        self._filter_sampler = filter_sampler
        self._most_remaining = most_remaining(state.limits)

    def run(  # noqa: C901 - one loop without calls, as in fast_publish
        self, connection: Connection, session: Session, data: bytes, position: int
    ) -> int:
        """Take packets from ``position`` on; return where the first begins that it leaves."""
        state = self._state
        look_up = state.memberships.look_up_function
        if connection.found:
            look_up = look_up_in_both(connection.found, look_up)
        routes, is_restricted = state.routes.by_topic, state.access.is_restricted
        start, size = position, len(data)
        received = sent = spatial = 0
        peid, topic = -1, b""
        while position + 4 < size and data[position] == QOS_0:
            remaining = data[position + 1]
            body = position + 2
            if remaining > 0x7F:
                if data[body] > 0x7F or not data[body]:
                    break
                remaining = remaining & 0x7F | data[body] << 7
                body += 1
            end = body + remaining
            at = body + 2
            if end > size or at > end or remaining > self._most_remaining:
                break
            at += data[body] << 8 | data[body + 1]
            topic = data[body + 2 : at]
            route = routes.get(topic)
            if (
                at > end
                or route is None
                or not route.is_simple
                or (is_restricted and topic not in connection.may_publish)
            ):
                break
            copies = self._fan_out.deliver_content(session, route, look_up, data[at:end])
            if copies < 0:
                break
            sent += copies
            received += 1
            if route.gateway_peid is not None:
                peid = route.gateway_peid
                spatial += 1
            position = end
        if received:
            counters = state.counters
            counters.publishes_received += received
            counters.packets_received += received
            counters.publish_bytes_received += position - start
            counters.publishes_sent += sent
            counters.spatial_publishes += spatial
            if peid >= 0:
                self._filter_sampler.look_at(topic, peid)
        return position
