"""What a publisher is told: why a message is refused, and its PUBACK or PUBREC.

MQTT 3 has no acknowledgement that refuses. A message that is refused for good is acknowledged and
counted as dropped. When it could be taken later, the connection is closed without an
acknowledgement, so that its client sends it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from broker.codec.gateway_rules import contradiction
from broker.codec.packet_writer import PUBACK, PUBREC
from broker.codec.properties import user_property_names
from broker.codec.publish import Publish
from broker.codec.reason_codes import ReasonCode, TryAgainError
from broker.core.core_state import CoreState
from broker.core.counters import Drop
from broker.core.message import Message
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session
from broker.core.subscribe.routes import Route
from broker.core.verdicts import Action, denial_text
from schemas.mqtt_names import name_warnings

# User properties of a message that are looked at for a name that is nearly ours.
MOST_NAMES: Final = 20


class RefusedPublish(NamedTuple):
    """Code and text are for PUBACK and PUBREC; a message of QoS 0 is counted under ``drop``.

    ``is_temporary``: the same message may be taken later.
    """

    reason: ReasonCode
    drop: Drop
    text: str
    is_temporary: bool = False


# 0x80 for what may succeed later (docs/decisions/0210-a-reason-code-says-what-to-do.md).
NO_MEMBERSHIPS: Final = RefusedPublish(
    ReasonCode.UNSPECIFIED_ERROR,
    Drop.NO_MEMBERSHIPS,
    "memberships cannot be read at present, try again later",
    is_temporary=True,
)
NO_ENTITY: Final = RefusedPublish(
    ReasonCode.UNSPECIFIED_ERROR,
    Drop.NO_MEMBERSHIPS,
    "the entity that the topic names cannot be looked up at present, try again later",
    is_temporary=True,
)
NEIGHBORHOOD_WAITS: Final = RefusedPublish(
    ReasonCode.UNSPECIFIED_ERROR,
    Drop.NEIGHBORHOOD_WAITS,
    "a neighborhood under this topic waits for the resolver, try again later",
    is_temporary=True,
)


def topic_refusal(state: CoreState, route: Route) -> RefusedPublish | None:
    """Return why no client may publish to a topic, None when one may."""
    if route.refusal is None:
        return None
    text = f"topics under {route.topic.partition('/')[0]}/ are the broker's own"
    if route.refusal is ReasonCode.TOPIC_NAME_INVALID:
        text = f"the topic has more than {state.limits.topic_levels} levels"
    return RefusedPublish(route.refusal, Drop.BAD_TOPIC, text)


def refusal_of(
    state: CoreState, session: Session, publish: Publish, route: Route
) -> RefusedPublish | None:
    """Return why a client may not publish this, None when it may."""
    refusal = topic_refusal(state, route)
    if refusal is not None:
        return refusal
    if state.access.is_restricted:
        verdict = session.verdicts.get((Action.PUBLISH, route.topic))
        if verdict is not None and verdict.is_error:
            text = denial_text(verdict, "publish to", route.topic)
            return RefusedPublish(verdict, Drop.REFUSED, text)
    code, properties = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, publish.properties
    if properties.peid_error is not None:
        return RefusedPublish(code, Drop.BAD_PEID, properties.peid_error)
    return None


def entity_refusal(state: CoreState, route: Route, peid: int | None) -> RefusedPublish | None:
    """Return the refusal of a message by what its topic and its peid property say."""
    if not state.keys.is_settled(route):
        return NO_ENTITY
    wrong = contradiction(route.gateway_peid, peid)
    if route.gateway_key is not None and peid is not None:
        wrong = f"no entity has the key in the topic, the peid property says {peid}"
    if wrong is None:
        return None
    return RefusedPublish(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, Drop.PEID_MISMATCH, wrong)


def no_match_text(state: CoreState, message: Message) -> str | None:
    """Return what is said of a message that no subscription matches: about its entity.

    Without an entity: whether a user property is nearly a peid.
    """
    if message.peid is None:
        names = user_property_names(message.properties, MOST_NAMES)
        return next((f"no subscription matches; {one}" for one in name_warnings(names, 1)), None)
    is_known = state.knows_entity(message.peid)
    if is_known is None:
        return None
    if is_known:
        return f"no subscription matches; the world has entity {message.peid}"
    return f"no subscription matches; the world has no entity {message.peid}"


def no_room_for(state: CoreState, session: Session, message: Message) -> RefusedPublish | None:
    """Return the refusal of a message for which a limit leaves no room."""
    if message.qos == 2 and not session.incoming.has_room():
        text = "no room for more messages of QoS 2 that were not released"
        return RefusedPublish(ReasonCode.QUOTA_EXCEEDED, Drop.REFUSED, text, is_temporary=True)
    if not message.retain or not message.payload:
        return None
    if state.retained.has_room_for(message, session.identity.user_name):
        return None
    text = "no room for more retained messages"
    return RefusedPublish(ReasonCode.QUOTA_EXCEEDED, Drop.RETAINED_FULL, text)


class PublishAnswers:
    """Answers publishers. ``resume`` is called for a connection that waits no longer."""

    __slots__ = ("_most_unanswered", "_resume", "_state")

    def __init__(self, state: CoreState, resume: Callable[[Connection], None]) -> None:
        self._state = state
        self._resume = resume
        self._most_unanswered = state.limits.receive_maximum

    def room(self, connection: Connection, session: Session) -> int:
        """Return how many QoS 1 messages may come before the first of them is answered."""
        if connection.has_properties:
            return session.incoming.room
        return self._most_unanswered - session.incoming.unanswered

    def must_wait(self, connection: Connection, session: Session) -> bool:
        """Block a client that knows of no receive maximum, and has reached it at QoS 1."""
        if connection.has_properties or session.incoming.unanswered < self._most_unanswered:
            return False
        connection.is_blocked = connection.waits_for_answers = True
        return True

    def refuse(
        self,
        connection: Connection,
        session: Session,
        publish: Publish,
        message: Message,
        refusal: RefusedPublish,
    ) -> None:
        """Answer a message that is refused, log it, and tell traces of it."""
        now, reason, text = self._state.clock(), refusal.reason, refusal.text
        if self._state.trace.is_on:
            self._state.trace.published(session, message, 0, reason, text)
        connection.refusals.note(connection, now, "publish", reason, text, topic=message.topic)
        if publish.qos and not connection.has_properties and refusal.is_temporary:
            raise TryAgainError(reason, text)
        if publish.qos == 0 or not connection.has_properties:
            self._state.counters.drops[refusal.drop] += 1
        self.answer(connection, session, publish, reason, text)

    def answer(
        self,
        connection: Connection,
        session: Session,
        publish: Publish,
        reason: ReasonCode,
        text: str | None = None,
    ) -> None:
        """Send PUBACK or PUBREC, once everything that it promises is stored."""
        if publish.qos == 0:
            return
        packet_id = publish.packet_id
        then: Callable[[], None] | None = None
        if publish.qos == 1:
            then = session.incoming.answered_qos1
            if not connection.has_properties:
                then = lambda: self._answered(connection, session)  # noqa: E731
        elif reason.is_error:
            session.incoming.refuse_qos2(packet_id)
        kind = PUBACK if publish.qos == 1 else PUBREC
        write = connection.codec.acknowledgement
        packet = write(kind, packet_id, reason, None)
        if text is not None:
            packet = connection.best_packet(packet, lambda: write(kind, packet_id, reason, text))
        self._state.output_gate.promise(connection, packet, then)

    def answer_plain(
        self, connection: Connection, session: Session, pubacks: bytes, count: int, held: int
    ) -> None:
        """Send PUBACKs of the fast path, in one piece; the last ``held`` must wait."""
        gate = self._state.output_gate
        if not held:
            gate.answers += count
            gate.write(connection, pubacks)
            return
        session.incoming.begin_many_qos1(held)
        gate.answers += count - 1
        gate.promise(connection, pubacks, lambda: self._answered(connection, session, held))

    def _answered(self, connection: Connection, session: Session, count: int = 1) -> None:
        session.incoming.answered_qos1(count)
        if connection.waits_for_answers:
            connection.waits_for_answers = False
            self._resume(connection)
