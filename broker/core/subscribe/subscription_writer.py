"""Puts subscriptions in force: at once, or in chunks when they have many members."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker.codec.fields import ParsedFilter
from broker.core.core_state import CoreState
from broker.core.journal import SubscriptionSaved
from broker.core.requests import Resolution
from broker.core.retained.retained_delivery import RetainedBacklog
from broker.core.sessions.session import Session
from broker.core.subscribe.subscribe_jobs import FilterRequest, SubscribeJob
from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from spatial_udfs.entity_table import Int64s

# Retain handling of a SUBSCRIBE.
SEND_IF_NEW: Final = 1
NEVER_SEND: Final = 2
# To enter a member costs 2 to 3 µs. So many are entered at once ...
MOST_AT_ONCE: Final = 2_000
# ... and of larger neighborhoods so many at each turn of the loop, of all of these together.
CHUNK: Final = 1_000


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
        """Put one filter in force; return the retained messages that are to be sent for it."""
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
            descriptor=request.descriptor,
            name=request.name,
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
        if terms.name is not None:
            self._state.named_arrivals[subscription] = None
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
        """Put a neighborhood in force under an nsid that is in use.

        The same one again, say after a reconnect, stays the same subscription: messages that
        wait for it are still wanted. Another one replaces it without a gap. A name is the same
        one, whatever it stands for by now.
        """
        before = existing.terms
        if before.sub_id is not None and before.sub_id != terms.sub_id:
            self._state.forget(before.sub_id)
        if before.topic_filter == terms.topic_filter and _is_same_neighborhood(before, terms):
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


def _is_same_neighborhood(one: SubscriptionTerms, other: SubscriptionTerms) -> bool:
    if one.name is not None or other.name is not None:
        return one.name == other.name
    return one.descriptor == other.descriptor


def _wants_retained(request: FilterRequest, *, is_new: bool) -> bool:
    if request.parsed is not None and request.parsed.share_name is not None:
        return False
    if request.retain_handling == SEND_IF_NEW:
        return is_new
    return request.retain_handling != NEVER_SEND


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
