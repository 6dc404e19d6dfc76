"""Slots: small numbers for the neighborhood subscriptions in force."""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.subscribe.subscription import NO_SLOT, Subscription, SubscriptionTerms, set_pairs
from broker.filter.memberships import VACANT, Memberships, SlotOwner
from spatial_udfs.entity_table import Int64s


class SlotTable:
    """Subscriptions by slot, in step with the memberships.

    ``seats`` are read on every PUBLISH with a peid; only their ``home`` tells a subscription
    in force from a vacant slot. They are the memberships' own, whose answers lead to them.
    """

    __slots__ = ("_memberships", "_used", "by_sub_id", "slot_owners")

    def __init__(self, memberships: Memberships) -> None:
        self._memberships = memberships
        self._used = 0
        self.slot_owners = memberships.slot_owners
        self.by_sub_id: dict[int, int] = {}

    def __len__(self) -> int:
        """The number of slots in use."""
        return self._used

    def living(self) -> list[Subscription]:
        """The subscriptions in force, by slot."""
        return list(_living(self.slot_owners))

    def each_living(self) -> Iterator[Subscription]:
        """The same one by one, for who takes a long time over it and is told who came."""
        return _living(self.slot_owners[:])

    def reserve(self) -> int:
        """A slot that nobody has yet: nothing that is entered under it is delivered."""
        reusable = self._memberships.reusable
        if reusable:
            return reusable.pop()
        slot = len(self.slot_owners)
        self.slot_owners.append(SlotOwner(slot))
        return slot

    def give_up(self, slot: int) -> None:
        """A reserved slot is not needed after all, whatever was entered under it."""
        self._memberships.remove(slot)

    def enter(
        self,
        subscription: Subscription,
        peids: Int64s | None,
        reserved: int | None = None,
        coming: Int64s | None = None,
    ) -> None:
        """Give a subscription its slot and its members; None: they are loaded later.

        It knows its home by now. All of them are there already under a slot that was reserved.
        """
        slot = self.reserve() if reserved is None else reserved
        self.slot_owners[slot].take(subscription)
        subscription.slot = slot
        self._used += 1
        if subscription.terms.sub_id is not None:
            self.by_sub_id[subscription.terms.sub_id] = slot
        set_pairs(subscription, 0 if peids is None else len(peids))
        if peids is not None and reserved is None:
            self._memberships.add(slot, peids, coming)

    def leave(self, subscription: Subscription) -> None:
        """Vacate the slot; it is given again when the memberships say so."""
        self.vacate(subscription)
        slot = subscription.slot
        subscription.slot = NO_SLOT
        self._used -= 1
        set_pairs(subscription, 0)
        self._memberships.remove(slot)

    def vacate(self, subscription: Subscription) -> None:
        """Let nobody have the slot of a subscription that is to leave it."""
        slot = subscription.slot
        self.slot_owners[slot].vacate()
        sub_id = subscription.terms.sub_id
        # The same neighborhood written otherwise has the same number, and may be in force.
        if sub_id is not None and self.by_sub_id.get(sub_id) == slot:
            del self.by_sub_id[sub_id]

    def renumber(self, subscription: Subscription, terms: SubscriptionTerms) -> None:
        """The registry knows a subscription in force by another number from now on."""
        if subscription.terms.sub_id is not None:
            self.by_sub_id.pop(subscription.terms.sub_id, None)
        subscription.renew(terms)
        if terms.sub_id is not None:
            self.by_sub_id[terms.sub_id] = subscription.slot


def _living(slot_owners: list[SlotOwner]) -> Iterator[Subscription]:
    for one in slot_owners:
        if one.subscription is not VACANT:
            yield one.subscription
