"""Who gets a message: plain subscriptions, neighborhoods, one member of each share group.

``Router`` finds the receivers of any message. ``FanOut`` copies the packets of the fast path.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from broker.codec.publish import QOS_0_HEADERS, SHORT_LENGTHS
from broker.core.core_state import CoreState
from broker.core.counters import BYTES_OF_WORK, WORK_OF_A_MATCH, FilterSampler
from broker.core.message import Message
from broker.core.plain_delivery import packet_message, with_extra, without_properties
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.subscribe.subscription import FilterEntry, ShareGroup, Subscription
from broker.filter.memberships import Slots

# Returns the slots of a peid; None: they must be asked for.
LookUpFunction: TypeAlias = Callable[[int], Slots | None]
# A peid with more slots is compared with what the topic leads to, if that is less.
MANY_SLOTS: Final = 32


class Router:
    """Makes deliveries of a message: one copy for each session, for all its subscriptions."""

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


class FanOut:
    """Copies one packet of the fast path to all its receivers."""

    __slots__ = ("_message_delivery", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery

    def deliver(
        self, publisher: Session, route: Route, slots: Slots | None, packet: bytes, at: int
    ) -> int:
        """Return the number of copies made, or -1 if the packet must take the general path.

        ``at`` is where the content of the properties begins.
        """
        state, counters = self._state, self._state.counters
        if slots is None or len(slots) > MANY_SLOTS or counters.work >= counters.work_limit:
            return -1
        hits = simple_hits(state, route, slots)
        if hits is None:
            return -1
        counters.work += len(hits)
        readers = route.readers if state.access.is_restricted else None
        # Receivers that hold the same neighborhood under the same number get the same bytes.
        extra, copy = b"", packet
        writes, others = state.outbox.writes, []
        copies = sent_bytes = 0
        # Without calls: one for each receiver would cost a tenth of the whole.
        for hit in hits:
            receiver = hit.session
            if hit.no_local and receiver is publisher:
                continue
            connection = receiver.direct
            if connection is None or (readers is not None and receiver not in readers):
                others.append(hit)
                continue
            if hit.extra != extra:
                extra = hit.extra
                copy = with_extra(route, packet, at, extra) if extra else packet
            out = connection.out
            if not out:
                writes.append(connection)
            out.append(copy)
            sent_bytes += len(copy)
            copies += 1
        counters.publish_bytes_sent += sent_bytes
        return copies + self._deliver_others(others, route, packet, at) if others else copies

    def _deliver_others(
        self, hits: list[Subscription], route: Route, packet: bytes, at: int
    ) -> int:
        """Deliver to receivers of MQTT 3 and to those that take no plain copy.

        Returns the number of plain copies made.
        """
        state = self._state
        readers = route.readers if state.access.is_restricted else None
        message: Message | None = None
        copy = b""
        copies = 0
        for hit in hits:
            receiver = hit.session
            connection = receiver.direct_3
            if connection is None or (readers is not None and receiver not in readers):
                message = message or packet_message(route, packet, at)
                state.counters.work += WORK_OF_A_MATCH
                self._message_delivery.deliver(receiver, message, (hit,), retain=False)
                if self._message_delivery.is_reader(receiver, route.topic):
                    state.routes.add_reader(route, receiver)
                continue
            copy = copy or without_properties(route, packet, at)
            if not connection.out:
                state.outbox.writes.append(connection)
            connection.out.append(copy)
            state.counters.publish_bytes_sent += len(copy)
            copies += 1
        return copies

    def deliver_content(
        self, publisher: Session, route: Route, look_up: LookUpFunction, payload: bytes
    ) -> int:
        """Deliver a message without properties, whose entity, if any, is named by its topic.

        Returns the same. Receivers of MQTT 5 get the entity as a property.
        """
        slots: Slots | None = ()
        if route.gateway_peid is not None and route.spatial:
            slots = look_up(route.gateway_peid)
        if not slots and not route.plain and slots is not None:
            return 0
        topic_field, named = route.topic_field, route.peid_property
        header = QOS_0_HEADERS[len(topic_field) + 1 + len(named) + len(payload)]
        packet = b"".join((header, topic_field, SHORT_LENGTHS[len(named)], named, payload))
        return self.deliver(publisher, route, slots, packet, len(header) + len(topic_field) + 1)


def simple_hits(
    state: CoreState, route: Route, slots: Slots, publisher: Session | None = None
) -> list[Subscription] | None:
    """Return the subscriptions that match; None: some share a session, or are the publisher's."""
    slot_owners, homes, plain = state.slots.slot_owners, route.spatial, route.plain
    hits = [owner.subscription for s in slots if (owner := slot_owners[s]).home in homes]
    matches = len(hits)
    for entry in plain:
        hits += entry.plain.values()
    # Under one filter each session stands once; otherwise all are compared.
    is_mixed = matches > 1 or len(plain) > 1 or (matches and plain)
    if is_mixed and len({hit.session for hit in hits}) != len(hits):
        return None
    is_subscriber = publisher is not None and publisher.subscriptions
    if is_subscriber and any(hit.session is publisher for hit in hits):
        return None
    state.counters.matches += matches
    return hits
