"""One SUBSCRIBE: checks, verdicts, members of the neighborhood, SUBACK, retained messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.requests import Resolution, ResolutionRefusal, Resolve
from broker.core.retained.retained_delivery import RetainedBacklog
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.subscribe_checks import check_pairs, check_subscribe, is_beyond_share
from broker.core.subscribe.subscribe_jobs import FilterRequest, SubscribeJob
from broker.core.subscribe.subscription_writer import Members, SubscriptionWriter
from broker.core.verdicts import Action, Verdict, denial_text
from schemas.mqtt_names import NSID, WARNING

if TYPE_CHECKING:
    from broker.core.subscribe.subscribe_queue import ChunkedSubscribe

# To enter a member costs 2 to 3 µs. So many are entered at once.
MOST_AT_ONCE: Final = 2_000


class SubscribeHandler:
    """Handles one SUBSCRIBE of a connection at a time.

    ``done`` is called after a job that had to wait.
    """

    __slots__ = (
        "_chunked_subscribe", "_done", "_message_delivery", "_state", "_subscription_writer",
    )  # fmt: skip

    def __init__(
        self,
        state: CoreState,
        message_delivery: MessageDelivery,
        chunked_subscribe: ChunkedSubscribe,
        done: Callable[[Connection, Session], None],
    ) -> None:
        self._state = state
        self._message_delivery = message_delivery
        self._done = done
        self._subscription_writer = SubscriptionWriter(state)
        self._chunked_subscribe = chunked_subscribe

    def refuse(self, connection: Connection, job: SubscribeJob, text: str) -> None:
        """Answer that a limit allows none of the filters."""
        job.refuse_all(ReasonCode.QUOTA_EXCEEDED, text)
        self._answer(connection, job, [], [])

    def begin(self, connection: Connection, session: Session, job: SubscribeJob) -> bool:
        """Check a job; return whether it is done, or else waits for verdicts or members."""
        check_subscribe(self._state, session, job)
        self._ask_verdicts(connection, session, job)
        return not job.undecided and self._decided(connection, session, job)

    def _ask_verdicts(self, connection: Connection, session: Session, job: SubscribeJob) -> None:
        for request in job.accepted:
            if request.parsed is None:
                continue

            def came(verdict: Verdict, request: FilterRequest = request) -> None:
                if _is_stale(connection, job):
                    return
                job.undecided -= 1
                if verdict.is_error:
                    _deny(job, request, verdict)
                if not job.undecided and self._decided(connection, session, job):
                    self._done(connection, session)

            topic_filter = request.parsed.topic_filter
            verdict = self._state.access.ask(session, topic_filter, Action.SUBSCRIBE, came)
            if verdict is None:
                job.undecided += 1
            elif verdict.is_error:
                _deny(job, request, verdict)

    def _decided(self, connection: Connection, session: Session, job: SubscribeJob) -> bool:
        """Go on after all verdicts; return whether the job is done, or else waits for members."""
        found = [one.neighborhood for one in job.accepted if one.neighborhood is not None]
        job.unresolved = list(dict.fromkeys(found))
        return self._go_on(connection, session, job)

    def _go_on(self, connection: Connection, session: Session, job: SubscribeJob) -> bool:
        """Ask for the members of the next neighborhood; finish the job when there is none."""
        if job.unresolved:
            self._ask_members(connection, session, job)
            return False
        self._finish(connection, session, job)
        return True

    def _ask_members(self, connection: Connection, session: Session, job: SubscribeJob) -> None:
        neighborhood = job.unresolved[0]
        requests = job.accepted_with(neighborhood)
        self._state.outbox.requests.append(
            Resolve(
                session.identity,
                session.owner,
                neighborhood,
                tuple(request.text for request in requests),
                tuple(request.nsid or 0 for request in requests),
                lambda answer: self._take_members(connection, session, job, answer),
                requests[0].name,
            )
        )

    def _take_members(
        self,
        connection: Connection,
        session: Session,
        job: SubscribeJob,
        answer: Resolution | ResolutionRefusal,
    ) -> None:
        """Put the subscriptions in force, or refuse them; their client may be gone by now."""
        if _is_stale(connection, job):
            if isinstance(answer, Resolution):
                self._state.forget(*answer.sub_ids)
            return
        requests = job.accepted_with(job.unresolved[0])
        if isinstance(answer, Resolution):
            refusal = check_pairs(self._state, session, requests, len(answer.peids))
            if refusal is not None:
                # Registered for nothing, unless the same neighborhood is in force already.
                in_force = self._state.slots.by_sub_id
                self._state.forget(*(one for one in answer.sub_ids if one not in in_force))
                answer = ResolutionRefusal(ReasonCode.QUOTA_EXCEEDED, refusal)
        if isinstance(answer, ResolutionRefusal):
            for request in requests:
                job.refuse(request, answer.reason, answer.text)
        elif len(answer.peids) * len(answer.sub_ids) > MOST_AT_ONCE:
            self._enter_in_chunks(connection, session, job, answer)
            return
        else:
            self._put(session, job, requests, answer)
        self._end_neighborhood(connection, session, job)

    def _enter_in_chunks(
        self, connection: Connection, session: Session, job: SubscribeJob, resolved: Resolution
    ) -> None:
        """Enter many members into the filter between other clients' packets, then go on."""

        def ended(slots: list[int] | None) -> None:
            if slots is None:
                self._state.forget(*resolved.sub_ids)
                return
            self._put(session, job, job.accepted_with(job.unresolved[0]), resolved, slots)
            self._end_neighborhood(connection, session, job)

        self._chunked_subscribe.begin(
            session,
            resolved,
            is_stale=lambda: _is_stale(connection, job),
            ended=ended,
            again=lambda: self._ask_members(connection, session, job),
        )

    def _end_neighborhood(
        self, connection: Connection, session: Session, job: SubscribeJob
    ) -> None:
        """Go on after the first of the unresolved neighborhoods is in force or refused."""
        del job.unresolved[0]
        if self._go_on(connection, session, job):
            self._done(connection, session)

    def _put(
        self,
        session: Session,
        job: SubscribeJob,
        requests: list[FilterRequest],
        resolved: Resolution,
        slots: list[int] | None = None,
    ) -> None:
        """Put the filters with a resolved neighborhood in force."""
        for number, request in enumerate(requests):
            request.kept_descriptor = resolved.descriptor
            if is_beyond_share(self._state, session, job, request):
                # Others took the room while it was resolved.
                self._state.forget(resolved.sub_ids[number])
                if slots is not None:
                    self._state.slots.give_up(slots[number])
                continue
            slot = None if slots is None else slots[number]
            members = Members(resolved.sub_ids[number], resolved.peids, slot, resolved.coming)
            self._put_one(session, job, request, members)
        job.warnings += [one for one in resolved.warnings if one not in job.warnings]

    def _put_one(
        self, session: Session, job: SubscribeJob, request: FilterRequest, members: Members | None
    ) -> None:
        backlog = self._subscription_writer.put(session, job, request, members)
        if backlog is not None:
            job.backlogs.append(backlog)

    def _finish(self, connection: Connection, session: Session, job: SubscribeJob) -> None:
        """Put the plain filters in force, then answer, then send retained messages."""
        for request in job.accepted_with(None):
            self._put_one(session, job, request, None)
        properties: list[tuple[str, str]] = []
        for request in job.accepted:
            request.code = ReasonCode(request.qos)
            if request.nsid is not None:
                properties.append((NSID, str(request.nsid)))
        properties += [(WARNING, warning) for warning in job.warnings]
        self._answer(connection, job, properties, job.backlogs)

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
        now = self._state.clock()
        connection.refusals.note_filters(connection, now, job.requests, job.text)
        if self._state.trace.is_on and connection.session is not None:
            answered = [(one.text, code) for one, code in zip(job.requests, codes, strict=True)]
            self._state.trace.answered(connection.session, "SUBACK", answered, job.text)
        # A client that wants no reason strings must not get user properties here either.
        write = connection.codec.suback
        packet = connection.best_packet(
            write(job.packet_id, codes, None, ()),
            lambda: write(job.packet_id, codes, job.text, properties),
        )

        def send_retained() -> None:
            connection.add_backlogs(backlogs)
            if connection.session is not None:
                self._message_delivery.drain(connection.session)

        self._state.output_gate.promise(connection, packet, send_retained if backlogs else None)


def _deny(job: SubscribeJob, request: FilterRequest, verdict: Verdict) -> None:
    job.refuse(request, verdict, denial_text(verdict, "subscribe to", request.text))


def _is_stale(connection: Connection, job: SubscribeJob) -> bool:
    """Return whether the connection is gone, and with it the work on this job."""
    return not connection.subscribe_queue or connection.subscribe_queue[0] is not job
