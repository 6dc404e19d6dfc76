"""Who gets a message: plain subscriptions, neighborhoods, one member of each share group.

Everything goes through it except for the packets of the fast path, which ``FanOut`` copies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from broker.core.core_state import CoreState
from broker.core.counters import BYTES_OF_WORK, WORK_OF_A_MATCH, FilterSampler
from broker.core.message import Message
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.subscribe.subscription import FilterEntry, ShareGroup, Subscription
from broker.filter.memberships import Slots

# A peid with more slots is compared with what the topic leads to, if that is less.
MANY_SLOTS: Final = 32


class Router:
    """Makes deliveries of a message. One copy for each session, whatever matches."""

    __slots__ = ("_filter_sampler", "_message_delivery", "_state")

    def __init__(
        self, state: CoreState, message_delivery: MessageDelivery, filter_sampler: FilterSampler
    ) -> None:
        self._state = state
        self._message_delivery = message_delivery
        self._filter_sampler = filter_sampler

    def route(self, message: Message, route: Route, slots: Slots, publisher: Session | None) -> int:
        """Deliver to every session that matches; return the number of sessions and groups."""
        targets: dict[Session, tuple[Subscription, ...]] = {}
        # The sessions of which more than one subscription matches, with all of these.
        several: dict[Session, list[Subscription]] = {}
        for number, entry in enumerate(route.plain):
            if number == 0:
                # Under one filter each session stands once.
                targets = {
                    session: (one,)
                    for session, one in entry.plain.items()
                    if not (one.no_local and session is publisher)
                }
                continue
            for subscription in entry.plain.values():
                _add(targets, several, subscription, publisher)
        in_groups: dict[ShareGroup, list[Subscription]] = {}
        for subscription in self._spatial(route, slots):
            home = subscription.home
            if isinstance(home, ShareGroup):
                in_groups.setdefault(home, []).append(subscription)
            else:
                _add(targets, several, subscription, publisher)
        unserved = 0
        if route.groups:
            groups = self._message_delivery.share_groups
            chosen, unserved = groups.choose_all(route.groups, in_groups, message)
            for subscription in chosen:
                _add(targets, several, subscription, publisher)
        matched = len(targets)
        for session, found in several.items():
            targets[session] = tuple(found)
            matched += len(found)
        work = WORK_OF_A_MATCH * matched + message.size * len(targets) // BYTES_OF_WORK
        self._state.counters.work += work
        self._deliver(message, targets)
        return len(targets) + unserved

    def _deliver(self, message: Message, targets: dict[Session, tuple[Subscription, ...]]) -> None:
        if self._state.trace.is_on:
            self._state.trace.routed(message, targets)
        for session, subscriptions in targets.items():
            retain = message.retain and any(one.terms.retain_as_published for one in subscriptions)
            self._message_delivery.deliver(session, message, subscriptions, retain=retain)
        if message.peid is not None:
            self._filter_sampler.look_at(message.topic.encode(), message.peid)

    def _spatial(self, route: Route, slots: Slots) -> list[Subscription]:
        """Return the neighborhood subscriptions that match both the topic and the entity.

        The work follows the smaller side: the entity's slots, or the topic's neighborhoods.
        """
        if not slots or not route.spatial:
            return []
        slot_owners, homes = self._state.slots.slot_owners, route.spatial
        is_many = len(slots) > MANY_SLOTS
        if is_many and sum(len(home.spatial) for home in homes) * 4 < len(slots):
            found = list(_bisect_each(homes, slots))
        else:
            found = [owner.subscription for s in slots if (owner := slot_owners[s]).home in homes]
        self._state.counters.matches += len(found)
        return found


def _bisect_each(
    homes: frozenset[FilterEntry | ShareGroup], slots: Slots
) -> Iterator[Subscription]:
    for home in homes:
        for slot, subscription in home.spatial.items():
            at = bisect_left(slots, slot)
            if at < len(slots) and slots[at] == slot:
                yield subscription


def _add(
    targets: dict[Session, tuple[Subscription, ...]],
    several: dict[Session, list[Subscription]],
    subscription: Subscription,
    publisher: Session | None,
) -> None:
    session = subscription.session
    if subscription.no_local and session is publisher:
        return
    known = targets.get(session)
    if known is None:
        targets[session] = (subscription,)
    elif session in several:
        several[session].append(subscription)
    else:
        several[session] = [*known, subscription]
