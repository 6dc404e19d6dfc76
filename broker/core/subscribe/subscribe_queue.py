"""The queue of a connection: its SUBSCRIBE and UNSUBSCRIBE packets, one after the other.

A neighborhood may take a while to resolve. Later packets of the client must not overtake it,
or an UNSUBSCRIBE would come too early to remove what it is about.
"""

from __future__ import annotations

from typing import Final

from broker.codec.fields import SHARE_PREFIX, count_filters
from broker.codec.packet_writer import SUBACK, UNSUBACK
from broker.codec.reason_codes import ReasonCode, violation
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_FILTER, WORK_OF_A_SUBSCRIBE, Refusal
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.subscribe.subscribe_handler import SubscribeHandler
from broker.core.subscribe.subscribe_jobs import (
    QueuedJob,
    SpatialPropertyError,
    SubscribeJob,
    UnsubscribeJob,
    nsids_of,
)
from broker.core.subscribe.subscription import Subscription
from schemas.mqtt_names import WARNING, name_warnings

# What a topic filter that waits takes in memory beside its text.
FILTER_BYTES: Final = 300
_FULL: Final = "too many subscribes wait already"


class SubscribeQueue:
    """Reads SUBSCRIBE and UNSUBSCRIBE packets, and does them in order."""

    __slots__ = ("_lifecycle", "_state", "_subscribe_handler")

    def __init__(
        self, state: CoreState, message_delivery: MessageDelivery, lifecycle: SessionLifecycle
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._subscribe_handler = SubscribeHandler(state, message_delivery, self._finish_first)

    def subscribe(
        self, connection: Connection, session: Session, data: bytes, body: int, end: int
    ) -> None:
        """Take a SUBSCRIBE; it is answered when everything about it is decided."""
        if self._refuse_too_many_filters(connection, data, body, end, SUBACK):
            return
        most_users = self._state.limits.user_properties
        packet = connection.codec.read_subscribe(data, body, end, most_users)
        job = SubscribeJob.of(packet)
        job.bytes = end - body + FILTER_BYTES * len(job.requests)
        if any(one.no_local and one.text.startswith(SHARE_PREFIX) for one in job.requests):
            raise violation("no-local on a shared subscription")
        if self._is_full(connection):
            self._state.counters.refusals[Refusal.WAITING_SUBSCRIBES] += len(job.requests)
            self._subscribe_handler.refuse(connection, job, _FULL)
        elif len(connection.backlog) >= self._state.limits.subscriptions:
            self._state.counters.refusals[Refusal.WAITING_RETAINED] += len(job.requests)
            text = "retained messages of too many subscribes wait to be read"
            self._subscribe_handler.refuse(connection, job, text)
        else:
            self._add(connection, session, job)

    def unsubscribe(
        self, connection: Connection, session: Session, data: bytes, body: int, end: int
    ) -> None:
        """Take an UNSUBSCRIBE."""
        if self._refuse_too_many_filters(connection, data, body, end, UNSUBACK):
            return
        most_users = self._state.limits.user_properties
        packet = connection.codec.read_unsubscribe(data, body, end, most_users)
        job = UnsubscribeJob(packet.packet_id, packet.patterns, packet.user_properties)
        job.bytes = end - body + FILTER_BYTES * len(job.filters)
        if self._is_full(connection):
            self._state.counters.refusals[Refusal.WAITING_SUBSCRIBES] += len(job.filters)
            code = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
            self._refuse_unsubscribe(connection, job, code, _FULL)
        else:
            self._add(connection, session, job)

    def _refuse_too_many_filters(
        self, connection: Connection, data: bytes, body: int, end: int, answer: int
    ) -> bool:
        """Answer a packet that has more filters than allowed; return whether it has.

        ``answer`` is the kind of packet that answers it. UNSUBACK has no code for a quota: every
        filter gets "implementation specific error".
        """
        counters, most = self._state.counters, self._state.limits.filters_per_packet
        packet_id, count = count_filters(
            data, body, end,
            option_bytes=answer == SUBACK, has_properties=connection.has_properties,
        )  # fmt: skip
        counters.work += WORK_OF_A_SUBSCRIBE + min(count, most) * WORK_OF_A_FILTER
        if count <= most:
            return False
        # Only their lengths were looked at.
        counters.work += count
        counters.refusals[Refusal.FILTERS_PER_PACKET] += count
        code = ReasonCode.QUOTA_EXCEEDED
        if answer == UNSUBACK:
            code = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        text = f"{count} topic filters in one packet; at most {most} are accepted"
        write = connection.codec.refused_filters
        plain = write(answer, packet_id, code, count, None)
        packet = connection.best_packet(plain, lambda: write(answer, packet_id, code, count, text))
        self._state.output_gate.promise(connection, packet)
        return True

    def _is_full(self, connection: Connection) -> bool:
        """Return whether too many packets of the client wait already, or too many bytes of them."""
        queue, limits = connection.subscribe_queue, self._state.limits
        return len(queue) >= limits.waiting_subscribes or (
            len(queue) > 1 and sum([job.bytes for job in queue]) > limits.packet_bytes
        )

    def _add(self, connection: Connection, session: Session, job: QueuedJob) -> None:
        connection.subscribe_queue.append(job)
        if len(connection.subscribe_queue) == 1:
            self._run(connection, session)

    def _finish_first(self, connection: Connection, session: Session) -> None:
        """Remove the first job, which had to wait and is done now, and do the next ones."""
        if connection.subscribe_queue:
            connection.subscribe_queue.popleft()
        self._run(connection, session)

    def _run(self, connection: Connection, session: Session) -> None:
        """Do jobs until the queue is empty, or one must wait."""
        while connection.subscribe_queue:
            job = connection.subscribe_queue[0]
            if isinstance(job, UnsubscribeJob):
                self._unsubscribe(connection, session, job)
            elif not self._subscribe_handler.begin(connection, session, job):
                return
            if connection.subscribe_queue:
                connection.subscribe_queue.popleft()

    def _unsubscribe(self, connection: Connection, session: Session, job: UnsubscribeJob) -> None:
        """Take subscriptions out of force, then answer: after UNSUBACK no message comes for them.

        These are the neighborhoods that have the nsids named, or all under the filters.
        """
        try:
            nsids = nsids_of(job.user_properties)
        except SpatialPropertyError as error:
            code = ReasonCode.TOPIC_FILTER_INVALID
            self._refuse_unsubscribe(connection, job, code, str(error))
            return
        chosen: dict[str, list[Subscription]] = {}
        for nsid in nsids:
            subscription = session.subscriptions.get(nsid)
            if subscription is not None:
                chosen.setdefault(subscription.terms.topic_filter, []).append(subscription)
        codes = []
        for topic_filter in job.filters:
            named = chosen.pop(topic_filter, []) if nsids else _all_under(session, topic_filter)
            for subscription in named:
                self._lifecycle.drop_subscription(session, subscription)
            codes.append(ReasonCode.SUCCESS if named else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        if self._state.trace.is_on:
            answered = list(zip(job.filters, codes, strict=True))
            self._state.trace.answered(session, "UNSUBACK", answered, None)
        write, packet_id = connection.codec.unsuback, job.packet_id
        packet = write(packet_id, codes, None, ())
        names = [name for name, _ in job.user_properties]
        warnings = [(WARNING, warning) for warning in name_warnings(names)]
        if warnings:
            packet = connection.best_packet(packet, lambda: write(packet_id, codes, None, warnings))
        self._state.output_gate.promise(connection, packet)

    def _refuse_unsubscribe(
        self, connection: Connection, job: UnsubscribeJob, code: ReasonCode, text: str
    ) -> None:
        codes, write = [code] * len(job.filters), connection.codec.unsuback
        plain = write(job.packet_id, codes, None, ())
        packet = connection.best_packet(plain, lambda: write(job.packet_id, codes, text, ()))
        self._state.output_gate.promise(connection, packet)


def _all_under(session: Session, topic_filter: str) -> list[Subscription]:
    """Return everything that the session holds under a filter."""
    found = list(session.by_filter.get(topic_filter, ()))
    plain = session.subscriptions.get(topic_filter)
    return found if plain is None else [*found, plain]
