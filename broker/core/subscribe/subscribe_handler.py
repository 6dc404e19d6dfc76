"""SUBSCRIBE: checks, verdicts, the neighborhood's resolution, then SUBACK and retained messages."""

from __future__ import annotations

from broker.codec.packet_reader import read_subscribe
from broker.codec.packet_writer import SUBACK, UNSUBACK, suback
from broker.codec.reason_codes import ReasonCode, violation
from broker.codec.topics import SHARE_PREFIX
from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.requests import Forget, Resolve, Resolved
from broker.core.retained.retained_backlog import RetainedBacklog
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.pair_quota import check_pairs
from broker.core.subscribe.subscribe_checks import (
    check_subscribe,
    is_beyond_share,
    is_queue_full,
    refuse_too_many_filters,
)
from broker.core.subscribe.subscribe_queue import (
    FILTER_BYTES,
    FilterRequest,
    LaneJob,
    SubscribeJob,
    UnsubscribeJob,
    subscribe_job,
)
from broker.core.subscribe.subscription_writer import (
    MOST_AT_ONCE,
    ChunkedSubscribe,
    Members,
    SubscriptionWriter,
)
from broker.core.subscribe.unsubscribe_handler import UnsubscribeHandler
from broker.core.verdicts import Action, Verdict
from schemas.mqtt_names import NSID, WARNING


class SubscribeHandler:
    """Works off the lanes."""

    __slots__ = (
        "_chunked_subscribe",
        "_message_delivery",
        "_state",
        "_subscription_writer",
        "_unsubscribe_handler",
    )

    def __init__(
        self,
        state: CoreState,
        message_delivery: MessageDelivery,
        unsubscribe_handler: UnsubscribeHandler,
    ) -> None:
        self._state = state
        self._message_delivery = message_delivery
        self._subscription_writer = SubscriptionWriter(state)
        self._chunked_subscribe = ChunkedSubscribe(state)
        self._unsubscribe_handler = unsubscribe_handler

    def subscribe(
        self, connection: Connection, session: Session, data: bytes, body: int, end: int
    ) -> None:
        """Take a SUBSCRIBE; it is answered when everything about it is decided."""
        if refuse_too_many_filters(self._state, connection, data, body, end, SUBACK):
            return
        job = subscribe_job(read_subscribe(data, body, end, self._state.limits.user_properties))
        job.bytes = end - body + FILTER_BYTES * len(job.requests)
        if any(one.no_local and one.text.startswith(SHARE_PREFIX) for one in job.requests):
            raise violation("no-local on a shared subscription")
        if is_queue_full(connection, self._state.limits):
            self._state.counters.refusals[Refusal.WAITING_SUBSCRIBES] += len(job.requests)
            job.refuse_all(ReasonCode.QUOTA_EXCEEDED, "too many subscribes wait already")
            self._answer(connection, job, [], [])
        elif len(connection.backlog) >= self._state.limits.subscriptions:
            self._state.counters.refusals[Refusal.WAITING_RETAINED] += len(job.requests)
            text = "retained messages of too many subscribes wait to be read"
            job.refuse_all(ReasonCode.QUOTA_EXCEEDED, text)
            self._answer(connection, job, [], [])
        else:
            self._enter(connection, session, job)

    def unsubscribe(
        self, connection: Connection, session: Session, data: bytes, body: int, end: int
    ) -> None:
        """Take an UNSUBSCRIBE."""
        if refuse_too_many_filters(self._state, connection, data, body, end, UNSUBACK):
            return
        job = self._unsubscribe_handler.read(data, body, end)
        job.bytes = end - body + FILTER_BYTES * len(job.filters)
        if is_queue_full(connection, self._state.limits):
            self._unsubscribe_handler.refuse(connection, job)
        else:
            self._enter(connection, session, job)

    def _enter(self, connection: Connection, session: Session, job: LaneJob) -> None:
        connection.subscribe_queue.append(job)
        if len(connection.subscribe_queue) == 1:
            self._work_off(connection, session)

    def _work_off(self, connection: Connection, session: Session) -> None:
        """Do what can be done now; stops at the first job that must wait."""
        while connection.subscribe_queue:
            job = connection.subscribe_queue[0]
            if isinstance(job, UnsubscribeJob):
                self._unsubscribe_handler.finish(connection, session, job)
            else:
                check_subscribe(self._state, session, job)
                self._ask_verdicts(connection, session, job)
                if job.undecided or not self._decided(connection, session, job):
                    return
            if connection.subscribe_queue:
                connection.subscribe_queue.popleft()

    def _ask_verdicts(self, connection: Connection, session: Session, job: SubscribeJob) -> None:
        for request in job.accepted:
            if request.parsed is None:
                continue

            def came(verdict: Verdict, request: FilterRequest = request) -> None:
                if _is_stale(connection, job):
                    return
                job.undecided -= 1
                if verdict.is_error:
                    job.refuse(request, verdict)
                if not job.undecided and self._decided(connection, session, job):
                    self._next(connection, session)

            topic_filter = request.parsed.topic_filter
            verdict = self._state.access.ask(session, topic_filter, Action.SUBSCRIBE, came)
            if verdict is None:
                job.undecided += 1
            elif verdict.is_error:
                job.refuse(request, verdict)

    def _decided(self, connection: Connection, session: Session, job: SubscribeJob) -> bool:
        """All verdicts are there; whether the job is done, or waits for its resolution."""
        accepted = job.accepted
        if job.descriptor is None or not accepted:
            self._finish(connection, session, job, None)
            return True

        self._ask_members(connection, session, job)
        return False

    def _ask_members(self, connection: Connection, session: Session, job: SubscribeJob) -> None:
        accepted = job.accepted

        def came(resolved: Resolved | None, code: ReasonCode, text: str | None) -> None:
            if _is_stale(connection, job):
                if resolved is not None:
                    self._state.outbox.requests.append(Forget(resolved.sub_ids))
                return
            if resolved is not None:
                refusal = check_pairs(self._state, session, job.accepted, len(resolved.peids))
                if refusal is not None:
                    self._forget(resolved)
                    resolved, code, text = None, ReasonCode.QUOTA_EXCEEDED, refusal
            if resolved is None:
                job.refuse_all(code, text)
            elif len(resolved.peids) * len(resolved.sub_ids) > MOST_AT_ONCE:
                self._enter_in_pieces(connection, session, job, resolved)
                return
            self._finish(connection, session, job, resolved)
            self._next(connection, session)

        self._state.outbox.requests.append(
            Resolve(
                self._state.pending_requests.open(came),
                session.identity,
                session.owner,
                job.descriptor or "",
                tuple(request.text for request in accepted),
                tuple(request.nsid or 0 for request in accepted),
            )
        )

    def _forget(self, resolved: Resolved) -> None:
        """Let go of the registration of what is not put in force, unless it is in force already."""
        in_force = self._state.slots.by_sub_id
        over = tuple(number for number in resolved.sub_ids if number not in in_force)
        self._state.outbox.requests.append(Forget(over))

    def _enter_in_pieces(
        self, connection: Connection, session: Session, job: SubscribeJob, resolved: Resolved
    ) -> None:
        """Bring many members into the filter between other clients' packets, then answer."""

        def ended(slots: list[int] | None) -> None:
            if slots is None:
                self._state.outbox.requests.append(Forget(resolved.sub_ids))
                return
            self._finish(connection, session, job, resolved, slots)
            self._next(connection, session)

        def again() -> None:
            self._ask_members(connection, session, job)

        self._chunked_subscribe.begin(
            session, resolved, lambda: _is_stale(connection, job), ended, again
        )

    def _next(self, connection: Connection, session: Session) -> None:
        if connection.subscribe_queue:
            connection.subscribe_queue.popleft()
        self._work_off(connection, session)

    def _finish(
        self,
        connection: Connection,
        session: Session,
        job: SubscribeJob,
        resolved: Resolved | None,
        slots: list[int] | None = None,
    ) -> None:
        """Put the accepted filters in force, then answer, then retained messages."""
        properties: list[tuple[str, str]] = []
        backlogs: list[RetainedBacklog] = []
        for number, request in enumerate(job.accepted):
            members = None
            if resolved is not None and is_beyond_share(self._state, session, job, request):
                # Others took the room while it was resolved.
                self._state.outbox.requests.append(Forget((resolved.sub_ids[number],)))
                if slots is not None:
                    self._state.slots.give_up(slots[number])
                continue
            if resolved is not None:
                slot = None if slots is None else slots[number]
                members = Members(resolved.sub_ids[number], resolved.peids, slot, resolved.coming)
                properties.append((NSID, str(request.nsid)))
            backlog = self._subscription_writer.put(session, job, request, members)
            request.code = ReasonCode(request.qos)
            if backlog is not None:
                backlogs.append(backlog)
        if resolved is not None:
            properties += [(WARNING, warning) for warning in resolved.warnings]
        self._answer(connection, job, properties, backlogs)

    def _answer(
        self,
        connection: Connection,
        job: SubscribeJob,
        properties: list[tuple[str, str]],
        backlogs: list[RetainedBacklog],
    ) -> None:
        codes = [
            ReasonCode.UNSPECIFIED_ERROR if one.code is None else one.code for one in job.requests
        ]
        packet = plain = suback(job.packet_id, codes, None, ())
        # A client that wants no problem information must not get user properties here either.
        if connection.wants_reasons:
            packet = suback(job.packet_id, codes, job.text, properties)
        limit = connection.maximum_packet_size
        if limit is not None and len(packet) > limit:
            packet = plain

        def send_retained() -> None:
            connection.add_backlogs(backlogs)
            if connection.session is not None:
                self._message_delivery.drain(connection.session)

        then = send_retained if backlogs else None
        self._state.output_gate.promise(connection, packet, self._state.journal.position, then)


def _is_stale(connection: Connection, job: SubscribeJob) -> bool:
    """Whether the connection is gone, and with it the work on this job."""
    return not connection.subscribe_queue or connection.subscribe_queue[0] is not job
