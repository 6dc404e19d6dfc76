"""Makes subscriptions and puts them in force: under their filter, with their slots."""

from __future__ import annotations

from dataclasses import dataclass
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from broker.codec.fields import SHARE_PREFIX, ParsedFilter
from broker.core.journal import SubscriptionSaved
from broker.core.retained.retained_delivery import RetainedBacklog
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Routes
from broker.core.subscribe.subscribe_jobs import FilterRequest, SubscribeJob
from broker.core.subscribe.subscription import (
    FilterEntry,
    ShareGroup,
    SlotTable,
    Subscription,
    SubscriptionTerms,
)
from broker.core.subscribe.topic_tree import LEVEL_BYTES, TopicTree
from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from broker.core.core_state import CoreState

# Retain handling of a SUBSCRIBE.
SEND_IF_NEW: Final = 1
NEVER_SEND: Final = 2
# A subscription, its terms, its filter's entry and its places in dictionaries, as measured.
SUBSCRIPTION_BYTES: Final = 700
# A neighborhood's slot, numbers and entry under its filter. Its members are counted elsewhere.
NEIGHBORHOOD_BYTES: Final = 700


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
        one, also when it stands for another neighborhood by now.
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


def subscription_bytes(topic_filter: str, descriptor: str | None) -> int:
    """Return about what a subscription to this filter takes in memory, and rather more.

    The text of the filter is there as a whole and once more in its levels; that of a shared
    subscription also without its prefix. Levels that filters share are counted for each.
    """
    copies = 3 if topic_filter.startswith(SHARE_PREFIX) else 2
    size = SUBSCRIPTION_BYTES + copies * getsizeof(topic_filter)
    size += LEVEL_BYTES * (topic_filter.count("/") + 1)
    if descriptor is not None:
        size += NEIGHBORHOOD_BYTES + getsizeof(descriptor)
    return size


class SubscriptionIndex:
    """The only place where subscriptions become active or cease to be."""

    __slots__ = ("_routes", "_slots", "_tree", "count", "shared_count")

    def __init__(self, tree: TopicTree, routes: Routes, slots: SlotTable) -> None:
        self._tree = tree
        self._routes = routes
        self._slots = slots
        self.count = 0
        self.shared_count = 0

    def enter(
        self,
        subscription: Subscription,
        parsed: ParsedFilter,
        peids: Int64s | None = None,
        slot: int | None = None,
        coming: Int64s | None = None,
    ) -> None:
        """Put a subscription in force; a neighborhood's members enter with it.

        With a reserved ``slot`` they were entered before. Routes are forgotten only when one of
        them must name another entry or group.
        """
        entry = self._tree.entry_of(parsed.topic_filter)
        home: FilterEntry | ShareGroup = entry
        if parsed.share_name is not None:
            home = entry.groups.get(parsed.share_name) or ShareGroup(parsed.share_name, entry)
            entry.groups[parsed.share_name] = home
            subscription.group = home
            self.shared_count += 1
        subscription.home = home
        if subscription.terms.nsid is None:
            is_first = not home.plain
            home.plain[subscription.session] = subscription
        else:
            is_first = not home.spatial
            self._slots.enter(subscription, peids, slot, coming)
            home.spatial[subscription.slot] = subscription
        subscription.active = True
        terms = subscription.terms
        subscription.bytes = subscription_bytes(terms.topic_filter, terms.descriptor)
        subscription.session.count_in(subscription)
        self.count += 1
        if is_first:
            self._routes.clear()

    def leave(self, subscription: Subscription) -> None:
        """Take a subscription out of force, at once and for everything that waits for it."""
        home = subscription.home
        if home is None:
            raise ValueError("the subscription is not in force")
        if subscription.terms.nsid is None:
            del home.plain[subscription.session]
            was_last = not home.plain
        else:
            del home.spatial[subscription.slot]
            self._slots.leave(subscription)
            was_last = not home.spatial
        subscription.home = None
        subscription.active = False
        subscription.session.count_out(subscription)
        self.count -= 1
        if isinstance(home, ShareGroup):
            self.shared_count -= 1
            home.served.pop(subscription.session, None)
        if was_last:
            self._prune(home)
            self._routes.clear()

    def _prune(self, home: FilterEntry | ShareGroup) -> None:
        entry = home.entry if isinstance(home, ShareGroup) else home
        if isinstance(home, ShareGroup) and not home.plain and not home.spatial:
            del entry.groups[home.share_name]
        if entry.is_empty:
            self._tree.remove(entry.topic_filter)
