"""One UNSUBSCRIBE: subscriptions go out of force, and UNSUBACK says so."""

from __future__ import annotations

from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.subscribe.subscribe_jobs import SpatialPropertyError, UnsubscribeJob, nsids_of
from broker.core.subscribe.subscription import Subscription
from schemas.mqtt_names import WARNING, name_warnings


class UnsubscribeHandler:
    """Handles one UNSUBSCRIBE at once."""

    __slots__ = ("_lifecycle", "_state")

    def __init__(self, state: CoreState, lifecycle: SessionLifecycle) -> None:
        self._state = state
        self._lifecycle = lifecycle

    def handle(self, connection: Connection, session: Session, job: UnsubscribeJob) -> None:
        """Take subscriptions out of force, then answer: after UNSUBACK no message comes for them.

        These are the neighborhoods that have the nsids named, or all under the filters.
        """
        try:
            nsids = nsids_of(job.user_properties)
        except SpatialPropertyError as error:
            code = ReasonCode.TOPIC_FILTER_INVALID
            self.refuse(connection, job, code, str(error))
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

    def refuse(
        self, connection: Connection, job: UnsubscribeJob, code: ReasonCode, text: str
    ) -> None:
        """Answer all filters with the same reason."""
        codes, write = [code] * len(job.filters), connection.codec.unsuback
        plain = write(job.packet_id, codes, None, ())
        packet = connection.best_packet(plain, lambda: write(job.packet_id, codes, text, ()))
        self._state.output_gate.promise(connection, packet)


def _all_under(session: Session, topic_filter: str) -> list[Subscription]:
    """Return everything that the session holds under a filter."""
    found = list(session.by_filter.get(topic_filter, ()))
    plain = session.subscriptions.get(topic_filter)
    return found if plain is None else [*found, plain]
