"""Shared subscriptions: the member of a group that takes a message, and the next if it cannot.

A member cannot take a message when it may not read the topic, when its packet limit is too
small, when its queue is full, or when it is away and the message has QoS 0. Then the next member
gets it. A message is dropped, and counted by cause, only when no member can take it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from broker.core.core_state import CoreState
from broker.core.counters import WORK_OF_A_MATCH, Drop
from broker.core.message import Delivery, Message, delivery_packet
from broker.core.sessions.connection import State
from broker.core.sessions.session import Session
from broker.core.subscribe.subscription import ShareGroup, Subscription
from broker.filter.memberships import Slots

if TYPE_CHECKING:
    from broker.core.publish.message_delivery import MessageDelivery

# Messages passed on to other members at once, before other clients get their turn.
PASSED_ON_AT_ONCE: Final = 500


class ShareGroups:
    """Chooses members of share groups."""

    __slots__ = ("_message_delivery", "_state")

    def __init__(self, state: CoreState, message_delivery: MessageDelivery) -> None:
        self._state = state
        self._message_delivery = message_delivery

    def choose_all(
        self,
        groups: Iterable[ShareGroup],
        spatial: Mapping[ShareGroup, list[Subscription]],
        message: Message,
    ) -> tuple[list[Subscription], int]:
        """Return the subscriptions of the members that get the message, one of each group.

        And the number of groups that match, but none of whose members can take it: it is dropped
        and counted. ``spatial`` are the neighborhoods of each group that match.
        """
        chosen: list[Subscription] = []
        unserved = 0
        for group in groups:
            own, cause = self._taker(group, spatial.get(group, []), message)
            if not own and cause is not None:
                self._state.counters.drops[cause] += 1
                unserved += 1
            chosen += own
        return chosen, unserved

    def pass_on(self, delivery: Delivery, cause: Drop) -> bool:
        """Deliver what a member could not take after all to the next one of its groups.

        Return whether it was for groups alone, so that no drop is left to be counted.
        """
        message = delivery.message
        groups = {one.group: None for one in delivery.subscriptions if one.group is not None}
        # At QoS 2 no other member may get a message that a member has, or may have.
        is_with_member = delivery.qos == 2 and delivery.was_written
        if not groups or is_with_member or message.has_expired(self._state.clock()):
            return False
        former = delivery.subscriptions[0].session
        for group in groups:
            self._pass_on_in(group, message, former, cause)
        return all(one.group is not None for one in delivery.subscriptions)

    def pass_on_all(self, session: Session) -> None:
        """Deliver what a session that ends has not received to other members."""
        flow = session.outgoing
        waiting = [one for one in flow.queue if not one.packet_id]
        self._pass_on_some(deque((*flow.identified.values(), *waiting)))

    def _pass_on_some(self, deliveries: deque[Delivery]) -> None:
        """Pass on a part of a queue, and the rest later, so that no other client waits long."""
        for _ in range(min(PASSED_ON_AT_ONCE, len(deliveries))):
            self.pass_on(deliveries.popleft(), Drop.SESSION_ENDED)
        if deliveries:
            self._state.soon(lambda: self._pass_on_some(deliveries))

    def _pass_on_in(
        self, group: ShareGroup, message: Message, former: Session, cause: Drop
    ) -> None:
        slots: Slots | None = ()
        if message.peid is not None and group.spatial:
            slots = self._state.memberships.look_up(message.peid)
        if slots is not None:
            self._deliver_to_next(group, message, former, slots, cause)
            return
        peid = message.peid or 0

        def came(found: Mapping[int, Slots], _error: str | None) -> None:
            self._deliver_to_next(group, message, former, found.get(peid, ()), cause)

        self._state.ask_memberships((peid,), came)

    def _deliver_to_next(
        self, group: ShareGroup, message: Message, former: Session, slots: Slots, cause: Drop
    ) -> None:
        slot_owners = self._state.slots.slot_owners
        spatial = [
            slot_owners[slot].subscription for slot in slots if slot_owners[slot].home is group
        ]
        chosen, _ = self._taker(group, spatial, message, former)
        if not chosen:
            self._state.counters.drops[cause] += 1
            return
        retain = message.retain and any(one.terms.retain_as_published for one in chosen)
        self._message_delivery.deliver(chosen[0].session, message, tuple(chosen), retain=retain)

    def _taker(
        self,
        group: ShareGroup,
        spatial: list[Subscription],
        message: Message,
        former: Session | None = None,
    ) -> tuple[list[Subscription], Drop | None]:
        """Return the subscriptions of the first member that can take a message.

        And why the member whose turn it was cannot. ``former`` is not asked.
        """
        matches: dict[Session, list[Subscription]] = {}
        for subscription in spatial:
            matches.setdefault(subscription.session, []).append(subscription)
        first_cause: Drop | None = None
        for session in _in_turn(group, matches):
            if session is former:
                continue
            plain = group.plain.get(session)
            own = matches.get(session, [])
            own = own if plain is None else [plain, *own]
            cause = self._obstacle(session, message, tuple(own))
            if cause is None:
                group.serve(session)
                return own, first_cause
            first_cause = first_cause or cause
            self._state.counters.work += WORK_OF_A_MATCH
        return [], first_cause

    def _obstacle(
        self, session: Session, message: Message, matches: tuple[Subscription, ...]
    ) -> Drop | None:
        """Return why a session cannot take a message now; None: it can, or it is not known yet."""
        if session.has_ended:
            return Drop.SESSION_ENDED
        verdict = self._message_delivery.verdict(session, message.topic)
        if verdict is not None and verdict.is_error:
            return Drop.NOT_ALLOWED
        qos = min(message.qos, max([one.qos for one in matches]))
        connection = session.connection
        if not qos and connection is None:
            return Drop.AWAY
        if not qos and connection is not None and connection.is_paused:
            return Drop.SLOW_CONSUMER
        delivery = Delivery(message, qos, matches)
        if connection is not None and connection.maximum_packet_size is not None:
            packet = delivery_packet(
                connection, delivery, self._state.clock(), is_again=False, new_alias=False
            )
            if not connection.takes(sum(map(len, packet))):
                return Drop.TOO_LARGE
        waits = verdict is None or connection is None or connection.state is not State.CONNECTED
        return session.outgoing.reason_to_refuse(delivery.size) if qos or waits else None


def _in_turn(group: ShareGroup, matches: Iterable[Session]) -> Iterator[Session]:
    """Yield the plain members and those that match, in the order of their turns.

    Connected ones come before others, then who was served longest ago. The first is found
    without a look at all members, because it nearly always takes the message.
    """
    served = group.served
    candidates = dict.fromkeys(matches)
    plain = _next_plain(group)
    if plain is not None:
        candidates[plain] = None
    if not candidates:
        return

    def turn(session: Session) -> tuple[bool, int]:
        return session.connection is None, served.get(session, 0)

    first = min(candidates, key=turn)
    yield first
    rest = {**candidates, **dict.fromkeys(group.plain)}
    del rest[first]
    yield from sorted(rest, key=turn)


def _next_plain(group: ShareGroup) -> Session | None:
    """Return the plain member that waits longest, a connected one if there is any."""
    for session in group.plain:
        if session.connection is not None:
            return session
    return next(iter(group.plain), None)
