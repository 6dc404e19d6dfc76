"""How many pairs of entity and subscription clients may have in the filter.

Pairs are counted when a neighborhood is entered, and anew after each switch, because another world
version may give a neighborhood more members. Nothing in force is ever cut for it: a client that a
switch brings over its quota gets no further pairs until it holds fewer, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from broker.core.core_state import CoreState
from broker.core.counters import Refusal
from broker.core.sessions.session import Session
from broker.core.subscribe.subscribe_queue import FilterRequest
from broker.core.subscribe.subscription import Subscription, set_pairs
from broker.filter.memberships import VACANT
from spatial_udfs.entity_table import Int64s

# Subscriptions whose pairs are counted anew at each turn: about a millisecond.
COUNTED_AT_ONCE: Final = 1_000


def check_pairs(
    state: CoreState, session: Session, requests: Iterable[FilterRequest], members: int
) -> str | None:
    """Return why a neighborhood of so many members cannot be entered for each of the filters.

    What a client holds already it may always ask for again, also when it is over its quota.
    """
    new = replaced = 0
    for request in requests:
        new += members
        existing = session.subscriptions.get(request.nsid or 0)
        replaced += 0 if existing is None else existing.pairs
    more = new - replaced
    if more <= 0:
        return None
    limit = state.limits.pairs
    if session.pairs + more > limit:
        state.counters.refusals[Refusal.PAIRS] += 1
        held = f"hold {session.pairs} pairs of entity and subscription"
        return f"this client's neighborhoods {held}; with these {new} there are more than {limit}"
    # The new pairs are entered before the replaced ones leave.
    if not session.pair_account.has_room(new):
        state.counters.refusals[Refusal.TOTAL_PAIRS] += 1
        return f"no room for {new} more pairs of entity and subscription of this user or address"
    return None


class PairRecount:
    """Counts the pairs of all neighborhoods after a switch, some at each turn."""

    __slots__ = ("_round", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._round = 0

    def begin(self) -> None:
        """Start over; a count that is under way ends."""
        self._round += 1
        number, left = self._round, self._state.slots.each_living()

        def step() -> None:
            if number != self._round:
                return
            some = list(islice(left, COUNTED_AT_ONCE))
            for subscription in some:
                # What has left its slot meanwhile counts nothing any more.
                if subscription.active and subscription.slot >= 0:
                    set_pairs(subscription, self._state.memberships.size_of(subscription.slot))
            if some:
                self._state.timers.at(self._state.clock(), step)

        step()


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
