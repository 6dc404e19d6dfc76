"""Puts what a SUBSCRIBE asks for in force, and says which retained messages are due for it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker.codec.topics import ParsedFilter
from broker.core.core_state import CoreState
from broker.core.journal import SubscriptionSaved
from broker.core.requests import Forget, Resolved
from broker.core.retained.retained_backlog import RetainedBacklog
from broker.core.sessions.session import Session
from broker.core.subscribe.subscribe_queue import FilterRequest, SubscribeJob
from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from spatial_udfs.entity_table import Int64s

# Retain handling of a SUBSCRIBE.
SEND_IF_NEW: Final = 1
NEVER_SEND: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """A resolved neighborhood; ``slot`` when its members are in the filter already."""

    sub_id: int
    peids: Int64s
    slot: int | None = None
    # In the world that is being loaded.
    coming: Int64s | None = None


class SubscriptionWriter:
    """Makes subscriptions, or renews them."""

    __slots__ = ("_state",)

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def put(
        self,
        session: Session,
        job: SubscribeJob,
        request: FilterRequest,
        members: Members | None,
    ) -> RetainedBacklog | None:
        """Put one filter in force; the retained messages that the client is owed for it."""
        if request.parsed is None:
            raise ValueError("the filter was not checked")
        terms = SubscriptionTerms(
            topic_filter=request.text,
            qos=request.qos,
            no_local=request.no_local,
            retain_as_published=request.retain_as_published,
            retain_handling=request.retain_handling,
            identifier=job.identifier,
            nsid=request.nsid,
            sub_id=None if members is None else members.sub_id,
            descriptor=job.descriptor,
        )
        existing = session.subscriptions.get(terms.key)
        if existing is None:
            subscription = Subscription(session, terms)
            self._enter(subscription, request.parsed, members)
        elif terms.nsid is None:
            existing.renew(terms)
            subscription = existing
        else:
            subscription = self._replace(existing, terms, request.parsed, members)
        session.subscriptions[terms.key] = subscription
        if session.is_recorded:
            self._state.journal.write(SubscriptionSaved(session.name, terms))
        if not _wants_retained(request, is_new=existing is None):
            return None
        peids = None if members is None else members.peids
        return RetainedBacklog(subscription, self._state.retained.births, peids)

    def _replace(
        self,
        existing: Subscription,
        terms: SubscriptionTerms,
        parsed: ParsedFilter,
        members: Members | None,
    ) -> Subscription:
        """A neighborhood under an nsid that is in use.

        The same one again, say after a reconnect, stays the same subscription: what waits for
        it is still wanted. Another one takes its place without a gap.
        """
        before = existing.terms
        if before.sub_id is not None and before.sub_id != terms.sub_id:
            self._state.outbox.requests.append(Forget((before.sub_id,)))
        if (before.topic_filter, before.descriptor) == (terms.topic_filter, terms.descriptor):
            self._state.index.leave(existing)
            existing.renew(terms)
            self._enter(existing, parsed, members)
            return existing
        subscription = Subscription(existing.session, terms)
        self._enter(subscription, parsed, members)
        self._state.index.leave(existing)
        return subscription

    def _enter(
        self, subscription: Subscription, parsed: ParsedFilter, members: Members | None
    ) -> None:
        if members is None:
            self._state.index.enter(subscription, parsed)
        else:
            self._state.index.enter(
                subscription, parsed, members.peids, members.slot, members.coming
            )


def _wants_retained(request: FilterRequest, *, is_new: bool) -> bool:
    if request.parsed is not None and request.parsed.share_name is not None:
        return False
    if request.retain_handling == SEND_IF_NEW:
        return is_new
    return request.retain_handling != NEVER_SEND


# A member costs 2 to 3 µs. So many are entered without letting others come between ...
MOST_AT_ONCE: Final = 2_000
# ... and so many at each turn, of all large neighborhoods together.
PIECE: Final = 1_000


@dataclass(slots=True, eq=False)
class _Entry:
    """One SUBSCRIBE: the same members for each of its filters, under a slot for each."""

    session: Session
    members: Resolved
    is_stale: Callable[[], bool]
    ended: Callable[[list[int] | None], None]
    again: Callable[[], None]
    # The last of these is being filled.
    slots: list[int] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        """Return the number of pairs that it brings into the filter."""
        return len(self.members.peids) * len(self.members.sub_ids)


class ChunkedSubscribe:
    """A piece of one, then a piece of the next."""

    __slots__ = ("_queues", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        # By owner; the one served longest ago comes first, and so in each queue.
        self._queues: OrderedDict[str, deque[_Entry]] = OrderedDict()

    def begin(
        self,
        session: Session,
        members: Resolved,
        is_stale: Callable[[], bool],
        ended: Callable[[list[int] | None], None],
        again: Callable[[], None],
    ) -> None:
        """Enter the members once for each subId.

        ``ended`` gets the slots that hold all of them, or None when it was given up because
        the client ``is_stale``. ``again`` is called instead when another world came into force:
        these are not the members any more.
        """
        entry = _Entry(session, members, is_stale, ended, again)
        # Its user holds them from now on, so that others who come meanwhile count with it.
        session.pair_account.add(entry.pairs)
        if not self._queues:
            self._soon()
        self._queues.setdefault(session.owner, deque()).append(entry)

    def _soon(self) -> None:
        self._state.timers.at(self._state.clock(), self._step)

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
            self._soon()
        if is_over:
            self._end(entry, is_stale=is_stale, is_outdated=is_outdated)

    def _end(self, entry: _Entry, *, is_stale: bool, is_outdated: bool) -> None:
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

    def _is_complete(self, entry: _Entry) -> bool:
        """Enter one more piece; whether nothing is left."""
        memberships = self._state.memberships
        if not entry.slots:
            self._begin_slot(entry)
        if not memberships.add_some(entry.slots[-1], PIECE):
            return False
        if len(entry.slots) == len(entry.members.sub_ids):
            return True
        self._begin_slot(entry)
        return False

    def _begin_slot(self, entry: _Entry) -> None:
        slot = self._state.slots.reserve()
        entry.slots.append(slot)
        self._state.memberships.begin(slot, entry.members.peids, entry.members.coming)
