"""UNSUBSCRIBE: one neighborhood by its nsid, or everything under a filter."""

from __future__ import annotations

from broker.codec.packet_reader import read_unsubscribe
from broker.codec.packet_writer import unsuback
from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLife
from broker.core.subscribe.subscribe_queue import SpatialPropertyError, UnsubscribeJob, nsids_of
from broker.core.subscribe.subscription import Subscription


class UnsubscribeHandler:
    """Takes subscriptions out of force."""

    __slots__ = ("_life", "_state")

    def __init__(self, state: CoreState, life: SessionLife) -> None:
        self._state = state
        self._life = life

    def read(self, data: bytes, body: int, end: int) -> UnsubscribeJob:
        """The packet as work to do."""
        packet = read_unsubscribe(data, body, end, self._state.limits.user_properties)
        return UnsubscribeJob(packet.packet_id, packet.patterns, packet.user_properties)

    def refuse(self, connection: Connection, job: UnsubscribeJob) -> None:
        """Answer at once that nothing was done."""
        self._state.counters.refusals[Refusal.WAITING_SUBSCRIBES] += len(job.filters)
        codes = [ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR] * len(job.filters)
        self._answer(connection, job, codes, "too many subscribes wait already")

    def finish(self, connection: Connection, session: Session, job: UnsubscribeJob) -> None:
        """Take out what is named, then answer: after UNSUBACK no message comes for it."""
        try:
            nsids = nsids_of(job.user_properties)
        except SpatialPropertyError as error:
            codes = [ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR] * len(job.filters)
            self._answer(connection, job, codes, str(error))
            return
        chosen = _by_filter(session, nsids)
        codes = []
        for topic_filter in job.filters:
            named = chosen.pop(topic_filter, []) if nsids else _all_under(session, topic_filter)
            for subscription in named:
                self._life.drop_subscription(session, subscription)
            codes.append(ReasonCode.SUCCESS if named else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        self._answer(connection, job, codes, None)

    def _answer(
        self,
        connection: Connection,
        job: UnsubscribeJob,
        codes: list[ReasonCode],
        text: str | None,
    ) -> None:
        packet = plain = unsuback(job.packet_id, codes, None)
        if text is not None and connection.wants_reasons:
            packet = unsuback(job.packet_id, codes, text)
        limit = connection.maximum_packet_size
        if limit is not None and len(packet) > limit:
            packet = plain
        self._state.output_gate.promise(connection, packet, self._state.journal.position)


def _by_filter(session: Session, nsids: list[int]) -> dict[str, list[Subscription]]:
    """Return the session's neighborhoods with these nsids, by topic filter."""
    found: dict[str, list[Subscription]] = {}
    for nsid in nsids:
        subscription = session.subscriptions.get(nsid)
        if subscription is not None:
            found.setdefault(subscription.terms.topic_filter, []).append(subscription)
    return found


def _all_under(session: Session, topic_filter: str) -> list[Subscription]:
    """Return everything that the session holds under a filter."""
    found = list(session.by_filter.get(topic_filter, ()))
    plain = session.subscriptions.get(topic_filter)
    return found if plain is None else [*found, plain]
