"""The fast paths: for packets of one kind in a row, as busy clients send them."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.codec.publish import QOS_1
from broker.core.core_state import CoreState
from broker.core.publish.fan_out import FanOut
from broker.core.publish.fast_publish import FastPublisher
from broker.core.publish.fast_publish_3 import FastPublisher3
from broker.core.publish.fast_publish_qos1 import FastPublisherQos1, PlainFanOut
from broker.core.publish.filter_sampler import FilterSampler
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.publish.publish_answers import PublishAnswers
from broker.core.sessions.acknowledgements import Acknowledgements
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session

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
