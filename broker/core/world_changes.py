"""What a change of the world does to clients: pairs are counted again, and notices are sent.

The broker publishes the world in force as a retained message for all. The changes of its own
neighborhoods go to each session by its own subscription to the topic: they are not routed,
because nobody else may learn of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from broker.core.core_state import CoreState
from broker.core.journal import SubscriptionSaved
from broker.core.message import Message
from broker.core.publish.message_delivery import MessageDelivery
from broker.core.sessions.session import Session
from broker.core.subscribe.subscription import Subscription
from schemas.mqtt_names import (
    CHANGES_TOPIC,
    WORLD_TOPIC,
    NeighborhoodChange,
    WorldNotice,
    changes_to_json,
)
from spatial_udfs.entity_table import Int64s

# Sessions that are notified at each turn of the loop: a hundred thousand at once would delay
# everybody.
SESSIONS_AT_ONCE: Final = 50
# Changes in one message, which so stays far below what any client takes.
CHANGES_IN_MESSAGE: Final = 500
# Subscriptions whose pairs are counted again at each turn: about a millisecond.
COUNTED_AT_ONCE: Final = 1_000
QOS: Final = 1


class Neighborhoods:
    """The neighborhood subscriptions in force, for the generations that bring their members.

    Pairs of entity and subscription are counted when a neighborhood is entered, and again after
    each switch, because another world version may give it more members. Nothing in force is cut
    for that: a client that a switch brings over its quota gets no further pairs until it holds
    fewer.
    """

    __slots__ = ("_recount", "_state")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        # The number of the recount that goes on, if one does.
        self._recount = 0

    def __iter__(self) -> Iterator[Subscription]:
        """Return all that are in force now."""
        return self._state.slots.in_force()

    @property
    def slots_by_sub_id(self) -> Mapping[int, int]:
        """The slots of all that are in force, by subId."""
        return self._state.slots.by_sub_id

    def at(self, slot: int) -> Subscription | None:
        """Return the subscription that has the slot."""
        return self._state.slots.at(slot)

    def renumber(self, subscription: Subscription, sub_id: int) -> None:
        """Give a subscription the other subId that the registry has for it, and record it."""
        self._state.slots.renumber(subscription, replace(subscription.terms, sub_id=sub_id))
        session = subscription.session
        if session.is_recorded:
            self._state.journal.write(SubscriptionSaved(session.name, subscription.terms))

    def refuse_messages_under(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse messages about entities under the filters of these, and of no others."""
        self._state.routes.mark_waiting(one.home for one in subscriptions if one.home is not None)

    def add_members(self, subscription: Subscription, slot: int, peids: Int64s) -> bool:
        """Enter members of a subscription; return False if it has left the slot."""
        if subscription.slot != slot or self.at(slot) is not subscription:
            return False
        self._state.memberships.add(slot, peids)
        subscription.set_pairs(subscription.pairs + len(peids))
        return True

    def members_changed(self) -> None:
        """Count the pairs of all again, some at each turn: another generation is in force."""
        self._state.keys.forget_unknown()
        self._recount += 1
        number, left = self._recount, iter(self)

        def step() -> None:
            if number != self._recount:
                return
            some = list(islice(left, COUNTED_AT_ONCE))
            for subscription in some:
                # What has left its slot meanwhile has no pairs any more.
                if subscription.active and subscription.slot >= 0:
                    subscription.set_pairs(self._state.memberships.size_of(subscription.slot))
            if some:
                self._state.soon(step)

        step()


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What a switch did to one subscription; None: it was not counted."""

    gained: int | None
    lost: int | None
    lacks_references: bool = False


@dataclass(frozen=True, slots=True)
class WorldInForce:
    """The world version and the generation in force; None: no generation."""

    version: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class WorldSwitch:
    """A switch, and what it changed, by subId; those that are not listed have what they had."""

    world: WorldNotice
    changes: Mapping[int, MemberChange]


class WorldNotifier:
    """Notifies clients of the world in force. ``publish`` is for what all clients may know."""

    __slots__ = ("_left", "_message_delivery", "_publish", "_state", "_switches")

    def __init__(
        self,
        state: CoreState,
        message_delivery: MessageDelivery,
        publish: Callable[[Message], None],
    ) -> None:
        self._state = state
        self._message_delivery = message_delivery
        self._publish = publish
        # Switches that not all clients know of yet, and the sessions left for the first of them.
        self._switches: deque[WorldSwitch] = deque()
        self._left: list[Session] = []

    @property
    def is_done(self) -> bool:
        """Whether all clients are notified of all switches."""
        return not self._switches

    def listeners(self) -> set[Session]:
        """Return the sessions that are subscribed to changes."""
        route = self._state.routes.of(CHANGES_TOPIC.encode())
        return {session for entry in route.plain for session in entry.plain}

    def publish_world(self, world: WorldNotice) -> None:
        """Update the retained message about the world in force."""
        self._publish(Message(WORLD_TOPIC, world.to_json().encode(), qos=QOS, retain=True))

    def notify(self, switched: WorldSwitch) -> None:
        """Publish the world, and send each listener its own changes, some at a time."""
        self.publish_world(switched.world)
        if not switched.changes:
            return
        self._switches.append(switched)
        if len(self._switches) == 1:
            self._begin()

    def notify_of_name(
        self, subscription: Subscription, change: MemberChange, world: WorldInForce
    ) -> None:
        """Send a client the change that another definition of a name made for it."""
        nsid, session = subscription.terms.nsid, subscription.session
        wanted = self._subscriptions_of(session)
        if not wanted or nsid is None:
            return
        notice = replace(_notice(nsid, change, world), name=subscription.terms.name)
        message = Message(CHANGES_TOPIC, changes_to_json([notice]).encode(), qos=QOS)
        self._message_delivery.deliver(session, message, wanted, retain=False)

    def _begin(self) -> None:
        self._left = list(self.listeners())
        self._step()

    def _step(self) -> None:
        switched = self._switches[0]
        for session in self._left[-SESSIONS_AT_ONCE:]:
            self._notify_session(session, switched)
        del self._left[-SESSIONS_AT_ONCE:]
        if not self._left:
            self._switches.popleft()
        if self._switches:
            self._state.soon(self._step if self._left else self._begin)

    def _notify_session(self, session: Session, switched: WorldSwitch) -> None:
        wanted = self._subscriptions_of(session)
        if not wanted or self._state.sessions.find(session.name) is not session:
            return
        found = []
        in_force = WorldInForce(switched.world.version, switched.world.generation)
        for subscription in session.subscriptions.values():
            terms = subscription.terms
            change = switched.changes.get(terms.sub_id or 0)
            if change is not None and terms.nsid is not None:
                found.append(_notice(terms.nsid, change, in_force))
        for start in range(0, len(found), CHANGES_IN_MESSAGE):
            payload = changes_to_json(found[start : start + CHANGES_IN_MESSAGE]).encode()
            message = Message(CHANGES_TOPIC, payload, qos=QOS)
            self._message_delivery.deliver(session, message, wanted, retain=False)

    def _subscriptions_of(self, session: Session) -> tuple[Subscription, ...]:
        """Return the session's own subscriptions to changes; a shared one would serve others."""
        route = self._state.routes.of(CHANGES_TOPIC.encode())
        return tuple(entry.plain[session] for entry in route.plain if session in entry.plain)


def _notice(nsid: int, change: MemberChange, world: WorldInForce) -> NeighborhoodChange:
    return NeighborhoodChange(
        nsid=nsid,
        gained=change.gained,
        lost=change.lost,
        has_references=not change.lacks_references,
        version=world.version,
        generation=world.generation,
    )


def world_of_this_run(version: int) -> WorldNotice:
    """Return the notice of a broker that begins with nothing, and without generations."""
    return WorldNotice(
        version=version, generation=None, pairs=None, entities=None,
        neighborhoods=0, without_references=0,
    )  # fmt: skip
