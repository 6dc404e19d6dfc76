"""The fast paths for packets of one kind in a row: of MQTT 3, of QoS 1, and all of a core.

``FastPublisher`` has that of MQTT 5 at QoS 0. Each does what the general path does, and stops at
the first packet that it does not take.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.codec.publish import QOS_0, QOS_1
from broker.core.core_state import CoreState
from broker.core.counters import FilterSampler
from broker.core.publish.fast_publish import FastPublisher, look_up_in_both, most_remaining
from broker.core.publish.fast_publish_qos1 import FastPublisherQos1, PlainFanOut
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.publish_answers import PublishAnswers
from broker.core.publish.router import FanOut
from broker.core.sessions.acknowledgements import Acknowledgements
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


_PUBACK: Final = 0x40


class QosOneRuns:
    """Takes runs of QoS 1: PUBLISH by its fast path, PUBACK by the acknowledgements."""

    __slots__ = ("_acknowledgements", "_publisher")

    def __init__(self, publisher: FastPublisherQos1, acknowledgements: Acknowledgements) -> None:
        self._publisher = publisher
        self._acknowledgements = acknowledgements

    def run(self, connection: Connection, session: Session, data: bytes, position: int) -> int:
        """Take packets from ``position`` on; return where the first begins that is left."""
        if session.is_traced or connection.failed:
            return position
        size, before = len(data), -1
        while before < position < size:
            before = position
            if data[position] == QOS_1:
                position = self._publisher.run(connection, session, data, position)
            elif data[position] == _PUBACK:
                position = self._acknowledgements.pubacks(session, data, position)
        return position


class FastPaths(NamedTuple):
    """Those of QoS 0 by version, and that of QoS 1."""

    mqtt_5: FastPublisher
    mqtt_3: FastPublisher3
    qos_1: QosOneRuns


def make_fast_paths(
    state: CoreState,
    delivery: MessageDelivery,
    answers: PublishAnswers,
    acknowledgements: Acknowledgements,
    sampler: FilterSampler,
) -> FastPaths:
    """Return the fast paths of a core."""
    fan_out = FanOut(state, delivery)
    publisher = FastPublisherQos1(state, PlainFanOut(state, delivery), answers, sampler)
    qos_1 = QosOneRuns(publisher, acknowledgements)
    return FastPaths(
        FastPublisher(state, fan_out, sampler, qos_1),
        FastPublisher3(state, fan_out, sampler),
        qos_1,
    )
