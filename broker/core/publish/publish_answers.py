"""PUBACK and PUBREC: what a publisher is told, and what becomes of it if it cannot be told.

MQTT 3 has no acknowledgement that refuses. A message that is refused for good is acknowledged and
counted as dropped. When it could be taken later, the connection is closed without an
acknowledgement, so that its client sends it again.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.codec.packet_writer import PUBACK, PUBREC
from broker.codec.publish import Publish
from broker.codec.reason_codes import ReasonCode, TryAgainError
from broker.core.core_state import CoreState
from broker.core.publish.publish_refusals import RefusedPublish
from broker.core.sessions.connection import Connection
from broker.core.sessions.session import Session


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
        self, connection: Connection, session: Session, publish: Publish, refusal: RefusedPublish
    ) -> None:
        """Answer a message that goes to nobody."""
        if publish.qos and not connection.has_properties and refusal.is_temporary:
            raise TryAgainError(refusal.reason, refusal.text)
        if publish.qos == 0 or not connection.has_properties:
            self._state.counters.drops[refusal.drop] += 1
        self.answer(connection, session, publish, refusal.reason, refusal.text)

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
