"""Puts what a SUBSCRIBE asks for in force, and says which retained messages are due for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.codec.topics import ParsedFilter
from broker.core.core_state import CoreState
from broker.core.journal import SubscriptionSaved
from broker.core.requests import Forget
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
