"""Tells clients about the world in force: a retained topic for all, and to each its own changes.

A client learns of its neighborhoods alone, because messages about them are not routed: they go
to the session that holds the neighborhood, by its own subscription to the topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.core.core_state import CoreState
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

# Sessions that are told at each turn: a hundred thousand at once would stop everybody.
SESSIONS_AT_ONCE: Final = 50
# Changes in one message, which so stays far below what any client takes.
CHANGES_IN_MESSAGE: Final = 500
QOS: Final = 1


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What a switch did to one subscription; None: nobody has counted."""

    gained: int | None
    lost: int | None
    lacks_references: bool = False


@dataclass(frozen=True, slots=True)
class Switched:
    """A switch, and what it changed, by subId; those that are not listed have what they had."""

    world: WorldNotice
    changes: Mapping[int, MemberChange]


class WorldNotifier:
    """``publish`` is for what everybody may know."""

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
        # Switches that are not told to all yet, and the sessions left for the first of them.
        self._switches: deque[Switched] = deque()
        self._left: list[Session] = []

    @property
    def is_done(self) -> bool:
        """Whether everybody was told everything."""
        return not self._switches

    def listeners(self) -> set[Session]:
        """The sessions that want to know of changes."""
        route = self._state.routes.of(CHANGES_TOPIC.encode())
        return {session for node in route.plain for session in node.plain}

    def tell_world(self, world: WorldNotice) -> None:
        """Put the retained state up to date."""
        self._publish(Message(WORLD_TOPIC, world.to_json().encode(), qos=QOS, retain=True))

    def tell(self, switched: Switched) -> None:
        """Tell everybody the state, and each listener its own changes, some at a time."""
        self.tell_world(switched.world)
        if not switched.changes:
            return
        self._switches.append(switched)
        if len(self._switches) == 1:
            self._begin()

    def _begin(self) -> None:
        self._left = list(self.listeners())
        self._step()

    def _step(self) -> None:
        switched = self._switches[0]
        for session in self._left[-SESSIONS_AT_ONCE:]:
            self._tell_session(session, switched)
        del self._left[-SESSIONS_AT_ONCE:]
        if not self._left:
            self._switches.popleft()
        if self._switches:
            step = self._step if self._left else self._begin
            self._state.timers.at(self._state.clock(), step)

    def _tell_session(self, session: Session, switched: Switched) -> None:
        wanted = self._subscriptions_of(session)
        if not wanted or self._state.sessions.find(session.name) is not session:
            return
        found = []
        for subscription in session.subscriptions.values():
            terms = subscription.terms
            change = switched.changes.get(terms.sub_id or 0)
            if change is not None and terms.nsid is not None:
                found.append(_told(terms.nsid, change, switched.world))
        for start in range(0, len(found), CHANGES_IN_MESSAGE):
            payload = changes_to_json(found[start : start + CHANGES_IN_MESSAGE]).encode()
            message = Message(CHANGES_TOPIC, payload, qos=QOS)
            self._message_delivery.deliver(session, message, wanted, retain=False)

    def _subscriptions_of(self, session: Session) -> tuple[Subscription, ...]:
        """By which the session hears of its changes; a shared one would tell somebody else."""
        route = self._state.routes.of(CHANGES_TOPIC.encode())
        return tuple(node.plain[session] for node in route.plain if session in node.plain)


def _told(nsid: int, change: MemberChange, world: WorldNotice) -> NeighborhoodChange:
    return NeighborhoodChange(
        nsid=nsid,
        gained=change.gained,
        lost=change.lost,
        has_references=not change.lacks_references,
        version=world.version,
        generation=world.generation,
    )


def world_of_this_run(version: int) -> WorldNotice:
    """The state of a broker that begins with nothing, and without generations."""
    return WorldNotice(
        version=version, generation=None, pairs=None, entities=None,
        neighborhoods=0, without_references=0,
    )  # fmt: skip
