"""Delivers one message to one session: now, later or not at all."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.codec.reason_codes import ReasonCode
from broker.core.core_state import CoreState
from broker.core.counters import Drop
from broker.core.journal import MessageSent
from broker.core.message import Delivery, Message, delivery_packet
from broker.core.publish.plain_copies import PlainCopies
from broker.core.publish.share_groups import ShareGroups
from broker.core.retained.retained_delivery import RetainedDelivery
from broker.core.sessions.connection import Connection, State
from broker.core.sessions.session import Session
from broker.core.subscribe.subscription import Subscription
from broker.core.verdicts import Action, Verdict

# Queued messages dropped at once, before other clients get their turn.
DROPS_AT_ONCE: Final = 500


class MessageDelivery:
    """Sends every PUBLISH to a client, except for the plain QoS 0 copies of the fast path."""

    __slots__ = ("_copies", "_retained", "_state", "share_groups")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._retained = RetainedDelivery(state, self)
        self._copies = PlainCopies(state)
        self.share_groups = ShareGroups(state, self)

    def deliver(
        self,
        session: Session,
        message: Message,
        subscriptions: tuple[Subscription, ...],
        *,
        retain: bool,
    ) -> None:
        """Deliver at the highest QoS that these subscriptions and the message allow."""
        granted = subscriptions[0].qos
        if len(subscriptions) > 1:
            granted = max([one.qos for one in subscriptions])
        qos = message.qos if message.qos < granted else granted  # noqa: FURB136 - no call
        direct = session.direct or session.direct_3
        if (
            direct is not None
            and (qos == 0 or (qos == 1 and session.outgoing.takes_at_once(message.size)))
            and not self._state.access.is_restricted
        ):
            self._copies.send(session, direct, message, subscriptions, qos, retain=retain)
            return
        connection = session.connection
        if session.has_ended or (qos == 0 and (connection is None or connection.is_paused)):
            self._lose(session, message)
            return
        delivery = Delivery(message, qos, subscriptions, retain=retain)
        if connection is None or connection.is_paused or connection.state is not State.CONNECTED:
            self._enqueue(session, delivery)
            return
        if len(session.waiting_verdicts) >= self._state.limits.queued_messages:
            self._state.count_drop(session, message, Drop.QUEUE_FULL)
            return
        verdict = self.verdict(session, message.topic)
        if verdict is None or (qos and not session.outgoing.is_idle):
            self._enqueue(session, delivery)
        elif verdict.is_error:
            self._state.count_drop(session, message, Drop.NOT_ALLOWED)
        elif qos and (cause := session.outgoing.reason_to_refuse(delivery.size)) is not None:
            self._state.count_drop(session, message, cause)
        else:
            session.record_waiting(self._state.journal, delivery)
            self._send(session, connection, delivery, queued=False)

    def _lose(self, session: Session, message: Message) -> None:
        """Drop QoS 0 for a client that does not read; for one that is away it is not kept."""
        if session.connection is not None:
            self._state.count_drop(session, message, Drop.SLOW_CONSUMER)
        elif self._state.trace.is_on:
            self._state.trace.not_kept(session, message)

    def drain(self, session: Session) -> None:
        """Send what waits, as far as the client takes it: the queue, then retained messages."""
        connection = session.connection
        if connection is None or connection.state is not State.CONNECTED:
            return
        flow = session.outgoing
        dropped = 0
        while flow.queue and not connection.is_paused:
            if dropped == DROPS_AT_ONCE:
                self._state.soon(lambda: self.drain(session))
                return
            delivery = flow.queue[0]
            if delivery.qos and not flow.may_start:
                return
            verdict = self.verdict(session, delivery.message.topic)
            if verdict is None:
                return
            flow.queue.popleft()
            cause = Drop.NOT_ALLOWED if verdict.is_error else self._reason_to_drop(delivery)
            if cause is not None:
                self._drop(session, delivery, cause)
                dropped += 1
            elif not self._send(session, connection, delivery, queued=True):
                dropped += 1
        self._retained.send_next(session, connection)

    def _reason_to_drop(self, delivery: Delivery) -> Drop | None:
        """Return why a delivery that waited is not sent any more.

        One that was sent before must be completed: the client may have it half.
        """
        if delivery.packet_id:
            return None
        if delivery.message.has_expired(self._state.clock()):
            return Drop.EXPIRED
        if not any(one.active for one in delivery.subscriptions):
            return Drop.UNSUBSCRIBED
        return None

    def is_reader(self, session: Session, topic: str) -> bool:
        """Return whether the session is known to be allowed to receive the topic."""
        return session.verdicts.get((Action.RECEIVE, topic)) == ReasonCode.SUCCESS

    def verdict(self, session: Session, topic: str) -> Verdict | None:
        """Return whether the session may receive the topic; None: that is requested."""
        if not self._state.access.is_restricted:
            return ReasonCode.SUCCESS
        if (Action.RECEIVE, topic) in session.waiting_verdicts:
            return None
        return self._state.access.ask(
            session, topic, Action.RECEIVE, lambda _verdict: self.drain(session)
        )

    def _enqueue(self, session: Session, delivery: Delivery) -> None:
        cause = session.outgoing.reason_to_refuse(delivery.size)
        if cause is not None:
            self._state.count_drop(session, delivery.message, cause)
            return
        session.record_waiting(self._state.journal, delivery)
        session.outgoing.enqueue(delivery)
        if self._state.trace.is_on:
            self._state.trace.queued(session, delivery)

    def _send(
        self, session: Session, connection: Connection, delivery: Delivery, *, queued: bool
    ) -> bool:
        """Send a delivery; return False if it is larger than the client takes, and dropped."""
        flow = session.outgoing
        is_again = False
        if delivery.qos:
            is_again = flow.start(delivery, queued=queued)
        elif queued:
            flow.discard(delivery)
        # A packet that must wait for the journal may be overtaken, so it cannot introduce an
        # alias that the packets in front of it would already use.
        must_wait = delivery.qos == 2 and session.is_recorded
        now = self._state.clock()
        packet = delivery_packet(
            connection, delivery, now, is_again=is_again, new_alias=not must_wait
        )
        size = sum(map(len, packet))
        if not connection.takes(size):
            self._count_drop(session, delivery, Drop.TOO_LARGE)
            if delivery.qos:
                flow.finish(delivery.packet_id)
                session.record_done(self._state.journal, delivery)
            return False
        self._state.counters.publishes_sent += 1
        self._state.counters.publish_bytes_sent += size
        if self._state.trace.is_on:
            self._state.trace.sent(session, delivery, size, again=is_again)
        if not must_wait:
            delivery.note_written()
            for part in packet:
                self._state.output_gate.write(connection, part)
            return True
        journal = self._state.journal
        if not is_again:
            journal.write(MessageSent(session.name, delivery.position, delivery.packet_id))
        is_off = partial(self._is_taken_back, session, delivery)
        self._state.output_gate.promise(connection, b"".join(packet), delivery.note_written, is_off)
        return True

    def _count_drop(self, session: Session, delivery: Delivery, cause: Drop) -> None:
        """Count a message that its session does not get, unless the next of its group gets it."""
        if not self.share_groups.pass_on(delivery, cause):
            self._state.count_drop(session, delivery.message, cause)

    def _is_taken_back(self, session: Session, delivery: Delivery) -> bool:
        """Return whether the right to a packet that waited for the journal is gone or unknown."""
        if self.verdict(session, delivery.message.topic) == ReasonCode.SUCCESS:
            return False
        session.outgoing.take_back(delivery)
        self.drain(session)
        return True

    def _drop(self, session: Session, delivery: Delivery, cause: Drop) -> None:
        self._count_drop(session, delivery, cause)
        session.outgoing.discard(delivery)
        session.record_done(self._state.journal, delivery)
