"""Neighborhoods without members yet, as the core knows them: under their filters messages wait."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.core_state import CoreState
from broker.core.subscribe.pair_quota import PairRecount
from broker.core.subscribe.subscription import Subscription, set_pairs
from broker.filter.slot_owner import VACANT
from spatial_udfs.entity_table import Int64s


class HeldNeighborhoods:
    """What ``WaitingNeighborhoods`` needs of the core."""

    __slots__ = ("_recount", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._recount = PairRecount(state)

    def neighborhood_at(self, slot: int) -> Subscription | None:
        """Return the subscription that has the slot."""
        slot_owners = self._state.slots.slot_owners
        if slot >= len(slot_owners) or slot_owners[slot].subscription is VACANT:
            return None
        return slot_owners[slot].subscription

    def hold_messages(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse messages about entities under the filters of these, and of no others."""
        homes = frozenset(one.home for one in subscriptions if one.home is not None)
        routes = self._state.routes
        if homes != routes.waiting:
            routes.waiting = homes
            routes.clear()

    def add_members(self, subscription: Subscription, slot: int, peids: Int64s) -> bool:
        """Enter members of a subscription in force; False: it has left the slot."""
        if subscription.slot != slot or self.neighborhood_at(slot) is not subscription:
            return False
        self._state.memberships.add(slot, peids)
        set_pairs(subscription, subscription.pairs + len(peids))
        return True

    def members_changed(self) -> None:
        """Count the pairs of all subscriptions anew: something else is in force."""
        self._recount.begin()
