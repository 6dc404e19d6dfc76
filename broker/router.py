"""Who gets a message: plain subscriptions, neighborhoods, one member of each share group."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from broker.core_state import CoreState
from broker.courier import Courier
from broker.memberships import Slots
from broker.message import Message
from broker.routes import Route
from broker.session import Session
from broker.subscription import FilterNode, ShareGroup, Subscription

# A peid with more slots is compared with what the topic leads to, if that is less.
_MANY_SLOTS = 32


class Router:
    """From a message to deliveries. One copy for each session, whatever matches."""

    __slots__ = ("_courier", "_state")

    def __init__(self, state: CoreState, courier: Courier) -> None:
        self._state = state
        self._courier = courier

    def route(self, message: Message, route: Route, slots: Slots, publisher: Session | None) -> int:
        """Deliver to everyone who is owed the message; the number of sessions."""
        targets: dict[Session, tuple[Subscription, ...]] = {}
        for number, node in enumerate(route.plain):
            if number == 0:
                # Under one filter each session stands once.
                targets = {
                    session: (one,)
                    for session, one in node.plain.items()
                    if not (one.no_local and session is publisher)
                }
                continue
            for subscription in node.plain.values():
                _add(targets, subscription, publisher)
        in_groups: dict[ShareGroup, list[Subscription]] = {}
        for subscription in self._spatial(route, slots):
            home = subscription.home
            if isinstance(home, ShareGroup):
                in_groups.setdefault(home, []).append(subscription)
            else:
                _add(targets, subscription, publisher)
        for group in route.groups:
            for subscription in _choose(group, in_groups.get(group, [])):
                _add(targets, subscription, publisher)
        for session, subscriptions in targets.items():
            self._courier.bring(
                session,
                message,
                subscriptions,
                retain=message.retain
                and any(one.terms.retain_as_published for one in subscriptions),
            )
        return len(targets)

    def _spatial(self, route: Route, slots: Slots) -> list[Subscription]:
        """The neighborhood subscriptions that both the topic and the entity lead to.

        The work follows the smaller side: the entity's slots, or the topic's neighborhoods.
        """
        if not slots or not route.spatial:
            return []
        if len(slots) > _MANY_SLOTS:
            candidates = sum(len(home.spatial) for home in route.spatial)
            if candidates * 4 < len(slots):
                found = list(_bisect_each(route.spatial, slots))
                self._state.counters.matches += len(found)
                return found
        seats, homes = self._state.slots.seats, route.spatial
        found = [seat.subscription for slot in slots if (seat := seats[slot]).home in homes]
        self._state.counters.matches += len(found)
        return found


def _bisect_each(homes: frozenset[FilterNode | ShareGroup], slots: Slots) -> Iterator[Subscription]:
    for home in homes:
        for slot, subscription in home.spatial.items():
            at = bisect_left(slots, slot)
            if at < len(slots) and slots[at] == slot:
                yield subscription


def _add(
    targets: dict[Session, tuple[Subscription, ...]],
    subscription: Subscription,
    publisher: Session | None,
) -> None:
    session = subscription.session
    if subscription.no_local and session is publisher:
        return
    known = targets.get(session)
    targets[session] = (subscription,) if known is None else (*known, subscription)


def _choose(group: ShareGroup, spatial: list[Subscription]) -> list[Subscription]:
    """The subscriptions of the member whose turn it is, of those that may have the message.

    It is the turn of who was served longest ago; who is connected comes before who is not.
    """
    candidates = spatial + _next_plain(group)
    if not candidates:
        return []
    served = group.served
    chosen = min(
        candidates,
        key=lambda one: (one.session.connection is None, served.get(one.session, 0)),
    ).session
    group.turn += 1
    served[chosen] = group.turn
    plain = group.plain.get(chosen)
    own = [one for one in spatial if one.session is chosen]
    if plain is None:
        return own
    group.plain.move_to_end(chosen)
    return [plain, *own]


def _next_plain(group: ShareGroup) -> list[Subscription]:
    """The plain member that waits longest, a connected one if there is any; or none."""
    first = next(iter(group.plain.values()), None)
    for subscription in group.plain.values():
        if subscription.session.connection is not None:
            return [subscription]
    return [] if first is None else [first]
