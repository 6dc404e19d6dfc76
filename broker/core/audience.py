"""Who a message on a topic would go to, read from the tables in force: nothing is changed.

``Audience.subscriptions`` lists everything under the topic, whether its neighborhood holds the
entity or not. ``Audience.fate`` says what becomes of a copy for one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import chain

from broker.codec.reason_codes import ProtocolError, ReasonCode
from broker.core.core_state import CoreState
from broker.core.publish.publish_answers import NEIGHBORHOOD_WAITS, entity_refusal, topic_refusal
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.subscribe.subscription import Subscription
from broker.core.verdicts import Action, Verdict
from broker.filter.memberships import Slots


class Fate(Enum):
    """What becomes of a copy for a subscription that matches."""

    DELIVERED = "delivered"
    QUEUED = "queued"  # the client is away, or does not read: it gets the message later
    AWAY = "away"  # QoS 0 is not kept for a client that is away
    SLOW = "slow"  # QoS 0 is dropped for a client that does not read
    QUEUE_FULL = "queue full"


class Audience:
    """The subscriptions under one topic, at the time of the call."""

    __slots__ = ("_route", "_state", "key", "peid", "refusal")

    def __init__(self, state: CoreState, topic: str, peid: int | None) -> None:
        """Look the topic up. ``refusal`` is why every such message is refused, or None.

        ``key`` is the key in the topic, if no entity has it.
        """
        self._state = state
        self.peid = peid
        self.key: str | None = None
        self._route: Route | None = None
        try:
            self._route = route = state.routes.of(topic.encode())
        except ProtocolError as error:
            self.refusal: str | None = str(error)
            return
        refusal = topic_refusal(state, route) or entity_refusal(state, route, peid)
        if peid is None:
            self.peid, self.key = route.gateway_peid, route.gateway_key
        if refusal is None and self.peid is not None and route.is_waiting:
            refusal = NEIGHBORHOOD_WAITS
        self.refusal = None if refusal is None else refusal.text

    @property
    def subscriptions(self) -> list[Subscription]:
        """All subscriptions under the topic; plain ones first, and filter by filter."""
        if self._route is None:
            return []
        route = self._route
        return [
            *chain.from_iterable(entry.plain.values() for entry in route.plain),
            *chain.from_iterable(group.plain.values() for group in route.groups),
            *chain.from_iterable(home.spatial.values() for home in route.spatial),
        ]

    @property
    def slots(self) -> Slots | None:
        """The slots that hold the entity; None: they must be read from Redis."""
        return () if self.peid is None else self._state.memberships.look_up(self.peid)

    def fate(self, subscription: Subscription, qos: int) -> Fate:
        """Return what becomes of a copy of a message of this QoS, if the client may receive it."""
        session, connection = subscription.session, subscription.session.connection
        is_taken = connection is not None and not connection.is_paused
        if min(qos, subscription.qos) == 0:
            if is_taken:
                return Fate.DELIVERED
            return Fate.AWAY if connection is None else Fate.SLOW
        if session.outgoing.reason_to_refuse(0) is not None:
            return Fate.QUEUE_FULL
        return Fate.DELIVERED if is_taken else Fate.QUEUED


class Audiences:
    """Answers questions about messages that might be published; for operators."""

    __slots__ = ("_state",)

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def of(self, topic: str, peid: int | None) -> Audience:
        """Return the audience of a message; without a peid a gateway rule may give it."""
        return Audience(self._state, topic, peid)

    def ask_key(self, topic: str, then: Callable[[str | None], None]) -> bool:
        """Request the entity whose key is in the topic; return whether that is necessary."""
        try:
            route = self._state.routes.of(topic.encode())
        except ProtocolError:
            return False
        if self._state.keys.is_settled(route) or route.gateway_key is None:
            return False
        self._state.keys.ask((route.gateway_key,), then)
        return True

    def may_receive(
        self, session: Session, topic: str, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """Return whether a session may receive a topic; None: ``then`` is called with it."""
        if not self._state.access.is_restricted:
            return ReasonCode.SUCCESS
        return self._state.access.ask(session, topic, Action.RECEIVE, then)
