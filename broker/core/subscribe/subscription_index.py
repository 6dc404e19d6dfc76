"""Subscriptions in force: entered under their filter, found by topic, slot and share group.

A slot is a small number that stands for a neighborhood subscription in the filter.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import getsizeof
from typing import Final

from broker.codec.fields import SHARE_PREFIX, ParsedFilter
from broker.core.publish.routes import Routes
from broker.core.subscribe.subscription import (
    NO_SLOT,
    FilterEntry,
    ShareGroup,
    Subscription,
    SubscriptionTerms,
)
from broker.core.subscribe.topic_tree import LEVEL_BYTES, TopicTree
from broker.filter.memberships import VACANT, Memberships, SlotOwner
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
        if isinstance(home, ShareGroup):
            entry = home.entry
            if not home.plain and not home.spatial:
                del entry.groups[home.share_name]
        else:
            entry = home
        if entry.is_empty:
            self._tree.remove(entry.topic_filter)


class SlotTable:
    """Subscriptions by slot, in step with the memberships.

    ``slot_owners`` are read on every PUBLISH with a peid; only their ``home`` distinguishes a
    subscription in force from a vacant slot. The list belongs to the memberships.
    """

    __slots__ = ("_memberships", "_used", "by_sub_id", "slot_owners")

    def __init__(self, memberships: Memberships) -> None:
        self._memberships = memberships
        self._used = 0
        self.slot_owners = memberships.slot_owners
        self.by_sub_id: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of slots in use."""
        return self._used

    def in_force(self) -> Iterator[Subscription]:
        """Return the subscriptions that have a slot now, without those that leave meanwhile."""
        owners = self.slot_owners[:]
        return (one.subscription for one in owners if one.subscription is not VACANT)

    def at(self, slot: int) -> Subscription | None:
        """Return the subscription that has the slot."""
        if slot >= len(self.slot_owners) or self.slot_owners[slot].subscription is VACANT:
            return None
        return self.slot_owners[slot].subscription

    def reserve(self) -> int:
        """Return a slot that no subscription has: nothing is delivered for its members yet."""
        reusable = self._memberships.reusable
        if reusable:
            return reusable.pop()
        slot = len(self.slot_owners)
        self.slot_owners.append(SlotOwner(slot))
        return slot

    def give_up(self, slot: int) -> None:
        """Return a reserved slot, whatever was entered under it."""
        self._memberships.remove(slot)

    def enter(
        self,
        subscription: Subscription,
        peids: Int64s | None,
        reserved: int | None = None,
        coming: Int64s | None = None,
    ) -> None:
        """Give a subscription its slot and its members; None: they are loaded later.

        Its home is set by now. Under a reserved slot all members are entered already.
        """
        slot = self.reserve() if reserved is None else reserved
        self.slot_owners[slot].take(subscription)
        subscription.slot = slot
        self._used += 1
        if subscription.terms.sub_id is not None:
            self.by_sub_id[subscription.terms.sub_id] = slot
        subscription.set_pairs(0 if peids is None else len(peids))
        if peids is not None and reserved is None:
            self._memberships.add(slot, peids, coming)

    def leave(self, subscription: Subscription) -> None:
        """Vacate the slot; it is used again when the memberships say so."""
        self.vacate(subscription)
        slot = subscription.slot
        subscription.slot = NO_SLOT
        self._used -= 1
        subscription.set_pairs(0)
        self._memberships.remove(slot)

    def vacate(self, subscription: Subscription) -> None:
        """Take the slot from a subscription that is to leave: nothing is delivered for it."""
        slot = subscription.slot
        self.slot_owners[slot].vacate()
        sub_id = subscription.terms.sub_id
        # The same neighborhood, written differently, has the same subId and may be in force.
        if sub_id is not None and self.by_sub_id.get(sub_id) == slot:
            del self.by_sub_id[sub_id]

    def renumber(self, subscription: Subscription, terms: SubscriptionTerms) -> None:
        """Give a subscription in force the other subId that the registry has for it."""
        if subscription.terms.sub_id is not None:
            self.by_sub_id.pop(subscription.terms.sub_id, None)
        subscription.renew(terms)
        if terms.sub_id is not None:
            self.by_sub_id[terms.sub_id] = subscription.slot
