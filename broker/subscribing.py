"""SUBSCRIBE: checks, verdicts, the neighborhood's resolution, then SUBACK and retained messages."""

from __future__ import annotations

from broker.access import Action, Verdict
from broker.codec.errors import violation
from broker.codec.reading import read_subscribe
from broker.codec.reason_codes import ReasonCode
from broker.codec.writing import suback
from broker.connection import Connection
from broker.core_state import CoreState
from broker.courier import Courier
from broker.effects import Forget, Resolve, Resolved
from broker.lane import (
    FilterRequest,
    LaneJob,
    SpatialPropertyError,
    SubscribeJob,
    UnsubscribeJob,
    neighborhood_of,
    nsids_of,
    subscribe_job,
)
from broker.retained import RetainedBacklog
from broker.session import Session
from broker.subscription_desk import SubscriptionDesk
from broker.topics import SHARE_PREFIX, FilterError, parse_filter
from broker.unsubscribing import Unsubscribing
from schemas.user_properties import NSID, WARNING


class Subscribing:
    """Works off the lanes."""

    __slots__ = ("_courier", "_desk", "_state", "_unsubscribing")

    def __init__(self, state: CoreState, courier: Courier, unsubscribing: Unsubscribing) -> None:
        self._state = state
        self._courier = courier
        self._desk = SubscriptionDesk(state)
        self._unsubscribing = unsubscribing

    def subscribe(
        self, connection: Connection, session: Session, data: bytes, body: int, end: int
    ) -> None:
        """Take a SUBSCRIBE; it is answered when everything about it is decided."""
        job = subscribe_job(read_subscribe(data, body, end))
        if any(one.no_local and one.text.startswith(SHARE_PREFIX) for one in job.requests):
            raise violation("no-local on a shared subscription")
        if len(connection.lane) >= self._state.limits.waiting_subscribes:
            job.refuse_all(ReasonCode.QUOTA_EXCEEDED, "too many subscribes wait already")
            self._answer(connection, job, [], [])
        else:
            self._enter(connection, session, job)

    def unsubscribe(
        self, connection: Connection, session: Session, data: bytes, body: int, end: int
    ) -> None:
        """Take an UNSUBSCRIBE."""
        job = self._unsubscribing.read(data, body, end)
        if len(connection.lane) >= self._state.limits.waiting_subscribes:
            self._unsubscribing.refuse(connection, job)
        else:
            self._enter(connection, session, job)

    def _enter(self, connection: Connection, session: Session, job: LaneJob) -> None:
        connection.lane.append(job)
        if len(connection.lane) == 1:
            self._work_off(connection, session)

    def _work_off(self, connection: Connection, session: Session) -> None:
        """Do what can be done now; stops at the first job that must wait."""
        while connection.lane:
            job = connection.lane[0]
            if isinstance(job, UnsubscribeJob):
                self._unsubscribing.finish(connection, session, job)
            else:
                self._check(session, job)
                self._ask_verdicts(connection, session, job)
                if job.undecided or not self._decided(connection, session, job):
                    return
            if connection.lane:
                connection.lane.popleft()

    def _check(self, session: Session, job: SubscribeJob) -> None:
        limits = self._state.limits
        for request in job.requests:
            try:
                request.parsed = parse_filter(request.text, limits.topic_levels)
            except FilterError as error:
                job.refuse(request, ReasonCode.TOPIC_FILTER_INVALID, str(error))
        try:
            self._read_properties(session, job)
        except SpatialPropertyError as error:
            job.refuse_all(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error))
        held, spatial = len(session.subscriptions), session.neighborhoods
        for request in job.accepted:
            key = request.text if request.nsid is None else request.nsid
            if key in session.subscriptions:
                continue
            held += 1
            spatial += request.nsid is not None
            if held > limits.subscriptions or spatial > limits.neighborhoods:
                job.refuse(request, ReasonCode.QUOTA_EXCEEDED, "too many subscriptions")

    def _read_properties(self, session: Session, job: SubscribeJob) -> None:
        job.descriptor = neighborhood_of(job.user_properties)
        nsids = nsids_of(job.user_properties)
        if job.descriptor is None:
            if nsids:
                raise SpatialPropertyError("an nsid belongs to a neighborhood, but there is none")
            return
        if not self._state.memberships.serves_neighborhoods:
            raise SpatialPropertyError("this broker serves no neighborhoods")
        if not nsids:
            nsids = _free_nsids(session, len(job.requests))
        if len(nsids) != len(job.requests):
            raise SpatialPropertyError("each topic filter needs an nsid of its own")
        for request, nsid in zip(job.requests, nsids, strict=True):
            request.nsid = nsid

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

        def came(resolved: Resolved | None, code: ReasonCode, text: str | None) -> None:
            if _is_stale(connection, job):
                if resolved is not None:
                    self._state.outbox.requests.append(Forget(resolved.sub_ids))
                return
            if resolved is None:
                job.refuse_all(code, text)
            self._finish(connection, session, job, resolved)
            self._next(connection, session)

        self._state.outbox.requests.append(
            Resolve(
                self._state.tickets.open(came),
                session.identity,
                job.descriptor,
                tuple(request.text for request in accepted),
                tuple(request.nsid or 0 for request in accepted),
            )
        )
        return False

    def _next(self, connection: Connection, session: Session) -> None:
        if connection.lane:
            connection.lane.popleft()
        self._work_off(connection, session)

    def _finish(
        self, connection: Connection, session: Session, job: SubscribeJob, resolved: Resolved | None
    ) -> None:
        """Put the accepted filters in force, then answer, then retained messages."""
        properties: list[tuple[str, str]] = []
        backlogs: list[RetainedBacklog] = []
        for number, request in enumerate(job.accepted):
            if resolved is None:
                backlog = self._desk.put(session, job, request, None, None)
            else:
                sub_id = resolved.sub_ids[number]
                backlog = self._desk.put(session, job, request, sub_id, resolved.peids)
                properties.append((NSID, str(request.nsid)))
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
            connection.backlog += backlogs
            if connection.session is not None:
                self._courier.drain(connection.session)

        then = send_retained if backlogs else None
        self._state.outlet.promise(connection, packet, self._state.journal.position, then)


def _free_nsids(session: Session, count: int) -> list[int]:
    """Numbers that the session does not use yet."""
    free: list[int] = []
    while len(free) < count:
        if session.next_nsid not in session.subscriptions:
            free.append(session.next_nsid)
        session.next_nsid += 1
    return free


def _is_stale(connection: Connection, job: SubscribeJob) -> bool:
    """Whether the connection is gone, and with it the work on this job."""
    return not connection.lane or connection.lane[0] is not job
