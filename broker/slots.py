"""Slots: small numbers for the neighborhood subscriptions in force."""

from __future__ import annotations

from typing import Final, cast

from broker.memberships import Memberships
from broker.subscription import NO_SLOT, Subscription, SubscriptionTerms
from spatial_udfs.entity_table import Int64s


class _Vacant:
    """Stands where a subscription was: at home nowhere, so no route ever finds it."""

    __slots__ = ()
    home: Final = None


# Only ``home`` is ever asked of it before it is known to be none.
VACANT: Final = cast("Subscription", _Vacant())


class SlotTable:
    """Subscriptions by slot, in step with the memberships.

    ``occupants`` is read on every PUBLISH with a peid; only its ``home`` tells a living
    subscription from a vacant slot.
    """

    __slots__ = ("_memberships", "_used", "by_sub_id", "occupants")

    def __init__(self, memberships: Memberships) -> None:
        self._memberships = memberships
        self._used = 0
        self.occupants: list[Subscription] = []
        self.by_sub_id: dict[int, int] = {}

    def __len__(self) -> int:
        """The number of slots in use."""
        return self._used

    def living(self) -> list[Subscription]:
        """The subscriptions in force, by slot."""
        return [one for one in self.occupants if isinstance(one, Subscription)]

    def reserve(self) -> int:
        """A slot that nobody has yet: nothing that is entered under it is delivered."""
        reusable = self._memberships.reusable
        if reusable:
            return reusable.pop()
        self.occupants.append(VACANT)
        return len(self.occupants) - 1

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

        All of them are there already under a slot that was reserved.
        """
        slot = self.reserve() if reserved is None else reserved
        self.occupants[slot] = subscription
        subscription.slot = slot
        self._used += 1
        if subscription.terms.sub_id is not None:
            self.by_sub_id[subscription.terms.sub_id] = slot
        if peids is not None and reserved is None:
            self._memberships.add(slot, peids, coming)

    def leave(self, subscription: Subscription) -> None:
        """Vacate the slot; it is given again when the memberships say so."""
        slot = subscription.slot
        self.occupants[slot] = VACANT
        subscription.slot = NO_SLOT
        self._used -= 1
        sub_id = subscription.terms.sub_id
        # The same neighborhood written otherwise has the same number, and may be in force.
        if sub_id is not None and self.by_sub_id.get(sub_id) == slot:
            del self.by_sub_id[sub_id]
        self._memberships.remove(slot)

    def renumber(self, subscription: Subscription, terms: SubscriptionTerms) -> None:
        """The registry knows a subscription in force by another number from now on."""
        if subscription.terms.sub_id is not None:
            self.by_sub_id.pop(subscription.terms.sub_id, None)
        subscription.renew(terms)
        if terms.sub_id is not None:
            self.by_sub_id[terms.sub_id] = subscription.slot
