"""Brings one message to one session: now, later or not at all."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.access import Action, Verdict
from broker.codec.reason_codes import ReasonCode
from broker.connection import Connection, State
from broker.core_state import CoreState
from broker.counters import Drop
from broker.delivery_packet import delivery_packet
from broker.delivery_records import record_done, record_waiting
from broker.journal import MessageSent
from broker.message import Message
from broker.outgoing import Delivery
from broker.retained import RetainedBacklog
from broker.session import Session
from broker.subscription import Subscription

# Retained messages written at one go, before others get their turn.
BACKLOG_BYTES: Final = 65_536
# Searching for some more of them takes as long as writing so many bytes.
SEARCH_COST: Final = 8_192


class Courier:
    """Every PUBLISH to a client passes here, but for the hot path's plain QoS 0 copies."""

    __slots__ = ("_state",)

    def __init__(self, state: CoreState) -> None:
        self._state = state

    def bring(
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
        qos = min(message.qos, granted)
        link = session.direct
        is_plain = qos == 0 or (qos == 1 and session.outgoing.is_idle)
        if link is not None and is_plain and not self._state.access.is_restricted:
            self._send_copy(session, link, message, subscriptions, qos, retain=retain)
            return
        connection = session.connection
        if qos == 0 and (connection is None or connection.is_paused):
            # A client that is away is owed no QoS 0; one that does not read loses it.
            if connection is not None:
                self._state.counters.drops[Drop.SLOW_CONSUMER] += 1
            return
        delivery = Delivery(message, qos, subscriptions, retain=retain)
        if connection is None or connection.is_paused or connection.state is not State.CONNECTED:
            self._enqueue(session, delivery)
            return
        verdict = self._verdict(session, message.topic)
        if verdict is None or (qos and not session.outgoing.is_idle):
            self._enqueue(session, delivery)
        elif verdict.is_error:
            self._state.counters.drops[Drop.NOT_ALLOWED] += 1
        else:
            record_waiting(self._state.journal, session, delivery)
            self._send(session, connection, delivery, queued=False)

    def _send_copy(
        self,
        session: Session,
        link: Connection,
        message: Message,
        subscriptions: tuple[Subscription, ...],
        qos: int,
        *,
        retain: bool,
    ) -> None:
        """The short way, for a receiver without aliases, packet limit or rules."""
        extra = subscriptions[0].extra
        if len(subscriptions) > 1:
            extra = b"".join([one.extra for one in subscriptions])
        first = 0x30 | qos << 1 | retain
        now = 0.0 if message.expires_at is None else self._state.clock()
        before, after = message.plain_copy(first, extra, now)
        out = link.out
        if not out:
            self._state.outbox.writes.append(link)
        size = len(before) + len(after)
        if qos:
            delivery = Delivery(message, qos, subscriptions, retain=retain)
            if session.is_recorded:
                record_waiting(self._state.journal, session, delivery)
            session.outgoing.start(delivery, queued=False)
            out += (before, delivery.packet_id.to_bytes(2, "big"), after)
            size += 2
        else:
            out += (before, after)
        counters = self._state.counters
        counters.publishes_sent += 1
        counters.publish_bytes_sent += size

    def drain(self, session: Session) -> None:
        """Send what waits, as far as the client takes it: the queue, then retained messages."""
        connection = session.connection
        if connection is None or connection.state is not State.CONNECTED:
            return
        flow = session.outgoing
        while flow.queue and not connection.is_paused:
            delivery = flow.queue[0]
            if delivery.qos and not flow.may_start:
                return
            verdict = self._verdict(session, delivery.message.topic)
            if verdict is None:
                return
            flow.queue.popleft()
            cause = Drop.NOT_ALLOWED if verdict.is_error else self._reason_to_drop(delivery)
            if cause is None:
                self._send(session, connection, delivery, queued=True)
            else:
                self._drop(session, delivery, cause)
        self._pull_backlog(session, connection)

    def _reason_to_drop(self, delivery: Delivery) -> Drop | None:
        """Why a delivery that waited need not be made any more.

        One that was sent before is not over: the client may have it half.
        """
        if delivery.packet_id:
            return None
        if delivery.message.has_expired(self._state.clock()):
            return Drop.EXPIRED
        if not any(one.active for one in delivery.subscriptions):
            return Drop.UNSUBSCRIBED
        return None

    def _pull_backlog(self, session: Session, connection: Connection) -> None:
        """Go on with retained messages, a piece at a time, so that nobody else waits long."""
        backlog = connection.backlog
        budget = BACKLOG_BYTES
        now = self._state.clock()
        while backlog and session.outgoing.is_idle and not connection.is_paused:
            if budget <= 0:
                self._state.timers.at(now, lambda: self.drain(session))
                return
            subscription = backlog[0].subscription
            if backlog[0].is_held:
                return
            message = backlog[0].next_message(self._state.retained)
            if message is None:
                budget -= SEARCH_COST
                if not backlog[0].search_on():
                    backlog.popleft()
            elif not message.has_expired(now):
                verdict = self._author_verdict(session, message, backlog[0])
                if verdict is None:
                    return
                budget -= message.size
                if verdict.is_error:
                    self._state.counters.drops[Drop.NOT_ALLOWED] += 1
                else:
                    self.bring(session, message, (subscription,), retain=True)

    def is_reader(self, session: Session, topic: str) -> bool:
        """Whether the session is known to be allowed to receive the topic."""
        return session.verdicts.get((Action.RECEIVE, topic)) == ReasonCode.SUCCESS

    def _verdict(self, session: Session, topic: str) -> Verdict | None:
        if not self._state.access.is_restricted:
            return ReasonCode.SUCCESS
        if (Action.RECEIVE, topic) in session.waiting_verdicts:
            return None
        return self._state.access.ask(
            session, topic, Action.RECEIVE, lambda _verdict: self.drain(session)
        )

    def _author_verdict(
        self, receiver: Session, message: Message, backlog: RetainedBacklog
    ) -> Verdict | None:
        """Whether a retained message is still its author's to say; None: the backlog waits."""
        if message.author is None:
            return ReasonCode.SUCCESS

        def decided(_verdict: Verdict) -> None:
            backlog.is_held = False
            self.drain(receiver)

        verdict = self._state.access.ask_author(message.author, message.topic, decided)
        if verdict is None:
            backlog.hold(message)
        return verdict

    def _enqueue(self, session: Session, delivery: Delivery) -> None:
        if not session.outgoing.has_room(delivery.message.size):
            self._state.counters.drops[Drop.QUEUE_FULL] += 1
            return
        record_waiting(self._state.journal, session, delivery)
        session.outgoing.enqueue(delivery)

    def _send(
        self, session: Session, connection: Connection, delivery: Delivery, *, queued: bool
    ) -> None:
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
        limit = connection.maximum_packet_size
        if limit is not None and len(packet) > limit:
            self._state.counters.drops[Drop.TOO_LARGE] += 1
            if delivery.qos:
                flow.finish(delivery.packet_id)
                record_done(self._state.journal, session, delivery)
            return
        self._state.counters.publishes_sent += 1
        self._state.counters.publish_bytes_sent += len(packet)
        if not must_wait:
            self._state.outlet.send(connection, packet)
            return
        journal = self._state.journal
        if not is_again:
            journal.write(MessageSent(session.client_id, delivery.position, delivery.packet_id))
        is_off = partial(self._is_taken_back, session, delivery)
        self._state.outlet.promise(connection, packet, journal.position, is_off=is_off)

    def _is_taken_back(self, session: Session, delivery: Delivery) -> bool:
        """Whether the right to a packet that waits for the journal is gone, or in question."""
        if self._verdict(session, delivery.message.topic) == ReasonCode.SUCCESS:
            return False
        session.outgoing.take_back(delivery)
        self.drain(session)
        return True

    def _drop(self, session: Session, delivery: Delivery, cause: Drop) -> None:
        self._state.counters.drops[cause] += 1
        session.outgoing.discard(delivery)
        record_done(self._state.journal, session, delivery)
