"""The queues of SUBSCRIBE and UNSUBSCRIBE: packets of a connection in order, members in chunks.

A neighborhood may take a while to resolve. Later packets of the client must not overtake it,
or an UNSUBSCRIBE would come too early to remove what it is about.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker.codec.fields import SHARE_PREFIX, count_filters
from broker.codec.packet_writer import SUBACK, UNSUBACK
from broker.codec.reason_codes import ReasonCode, violation
from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_FILTER, WORK_OF_A_SUBSCRIBE, Refusal
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.requests import Resolution
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.subscribe.subscribe_handler import SubscribeHandler
from broker.core.subscribe.subscribe_jobs import QueuedJob, SubscribeJob, UnsubscribeJob
from broker.core.subscribe.unsubscribe_handler import UnsubscribeHandler

# What a topic filter that waits takes in memory beside its text.
FILTER_BYTES: Final = 300
# Members of large neighborhoods entered at each turn of the loop, of all of these together.
CHUNK: Final = 1_000
_FULL: Final = "too many subscribes wait already"


class SubscribeQueue:
    """Reads SUBSCRIBE and UNSUBSCRIBE packets, and does them in order."""

    __slots__ = ("_state", "_subscribe_handler", "_unsubscribe_handler")

    def __init__(
        self, state: CoreState, message_delivery: MessageDelivery, lifecycle: SessionLifecycle
    ) -> None:
        self._state = state
        self._subscribe_handler = SubscribeHandler(
            state, message_delivery, ChunkedSubscribe(state), self._finish_first
        )
        self._unsubscribe_handler = UnsubscribeHandler(state, lifecycle)

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
            self._unsubscribe_handler.refuse(connection, job, code, _FULL)
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
                self._unsubscribe_handler.handle(connection, session, job)
            elif not self._subscribe_handler.begin(connection, session, job):
                return
            if connection.subscribe_queue:
                connection.subscribe_queue.popleft()


@dataclass(slots=True, eq=False)
class _ChunkedEntry:
    """One SUBSCRIBE: the same members for each of its filters, under a slot for each."""

    session: Session
    members: Resolution
    is_stale: Callable[[], bool]
    ended: Callable[[list[int] | None], None]
    again: Callable[[], None]
    # The last of these is being filled.
    slots: list[int] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        """The number of pairs that it adds to the filter."""
        return len(self.members.peids) * len(self.members.sub_ids)


class ChunkedSubscribe:
    """Enters large neighborhoods in turns: a chunk of one, then a chunk of the next."""

    __slots__ = ("_queues", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        # By owner; the one whose turn was longest ago comes first, and so in each queue.
        self._queues: OrderedDict[str, deque[_ChunkedEntry]] = OrderedDict()

    def begin(
        self,
        session: Session,
        members: Resolution,
        *,
        is_stale: Callable[[], bool],
        ended: Callable[[list[int] | None], None],
        again: Callable[[], None],
    ) -> None:
        """Enter the members once for each subId.

        ``ended`` gets the slots that hold all of them, or None when the client is gone, as
        ``is_stale`` says. ``again`` is called instead when another world came into force: these
        are not the members any more.
        """
        entry = _ChunkedEntry(session, members, is_stale, ended, again)
        # They count for the user from now on, so that its other requests are limited by them.
        session.pair_account.add(entry.pairs)
        if not self._queues:
            self._state.soon(self._step)
        self._queues.setdefault(session.owner, deque()).append(entry)

    def _step(self) -> None:
        owner, queue = next(iter(self._queues.items()))
        entry = queue.popleft()
        is_stale = entry.is_stale()
        is_outdated = bool(entry.slots) and self._state.memberships.is_outdated(entry.slots[-1])
        is_over = is_stale or is_outdated or self._is_complete(entry)
        if not is_over:
            queue.append(entry)
        self._queues.move_to_end(owner)
        if not queue:
            del self._queues[owner]
        if self._queues:
            self._state.soon(self._step)
        if is_over:
            self._end(entry, is_stale=is_stale, is_outdated=is_outdated)

    def _end(self, entry: _ChunkedEntry, *, is_stale: bool, is_outdated: bool) -> None:
        entry.session.pair_account.add(-entry.pairs)
        if not is_stale and not is_outdated:
            entry.ended(entry.slots)
            return
        for slot in entry.slots:
            self._state.slots.give_up(slot)
        if is_stale:
            entry.ended(None)
        else:
            entry.again()

    def _is_complete(self, entry: _ChunkedEntry) -> bool:
        """Enter one more chunk; return whether nothing is left."""
        memberships = self._state.memberships
        if not entry.slots:
            self._begin_slot(entry)
        if not memberships.add_some(entry.slots[-1], CHUNK):
            return False
        if len(entry.slots) == len(entry.members.sub_ids):
            return True
        self._begin_slot(entry)
        return False

    def _begin_slot(self, entry: _ChunkedEntry) -> None:
        slot = self._state.slots.reserve()
        entry.slots.append(slot)
        self._state.memberships.begin(slot, entry.members.peids, entry.members.coming)
