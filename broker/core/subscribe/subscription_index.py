"""Subscriptions in force: entered under their filter, with their slots."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from broker.codec.fields import SHARE_PREFIX, ParsedFilter
from broker.core.subscribe.routes import Routes
from broker.core.subscribe.subscription import FilterEntry, ShareGroup, SlotTable, Subscription
from broker.core.subscribe.topic_tree import LEVEL_BYTES, TopicTree
from spatial_udfs.entity_table import Int64s

# A subscription, its terms, its filter's entry and its places in dictionaries, as measured.
SUBSCRIPTION_BYTES: Final = 700
# A neighborhood's slot, numbers and entry under its filter. Its members are counted elsewhere.
NEIGHBORHOOD_BYTES: Final = 700


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
