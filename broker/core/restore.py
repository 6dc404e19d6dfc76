"""The durable state as records, out of the core and back into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker.codec.fields import SYSTEM_PREFIX
from broker.core import journal
from broker.core.core_state import CoreState
from broker.core.message import Delivery, Stage
from broker.core.retained.retained_messages import RetainedWriter
from broker.core.sessions.session import Session, queued_record
from broker.core.sessions.session_lifecycle import SessionLifecycle
from broker.core.subscribe.named_subscriptions import parse_subscription
from broker.core.subscribe.subscription import Subscription
from broker.core.verdicts import Identity

_RETAINED_IN_PART: Final = 500


class StateRestore:
    """Takes records of an earlier run, before the first connection."""

    __slots__ = ("_deliveries", "_lifecycle", "_retained_writer", "_state")

    def __init__(
        self, state: CoreState, lifecycle: SessionLifecycle, retained_writer: RetainedWriter
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._retained_writer = retained_writer
        # By client id and position.
        self._deliveries: dict[tuple[str, int], Delivery] = {}

    def restore(self, records: Iterable[journal.Record]) -> None:
        """Replay the records, then start the deadlines: no client is connected any more."""
        for record in records:
            self._replay(record)
        for (client_id, _), delivery in sorted(self._deliveries.items(), key=lambda item: item[0]):
            session = self._state.sessions.find(client_id)
            if session is not None:
                session.outgoing.restore(delivery)
                session.last_position = max(session.last_position, delivery.position)
        self._deliveries.clear()
        now = self._state.clock()
        for session in list(self._state.sessions):
            if session.expires_at is None:
                session.expires_at = now + session.expiry_interval
                if session.will is not None and session.will_at is None:
                    session.will_at = now + session.will.delay
                if session.is_recorded:
                    # Another restart must not start the wait again.
                    self._state.journal.write(session.record())
            self._lifecycle.wait(session)
            if session.name != session.identity.session_name:
                self._rename(session)

    def _rename(self, session: Session) -> None:
        """Store a session of an earlier release under the name that sessions have now."""
        self._state.journal.write(journal.SessionEnded(session.name))
        self._state.sessions.rename(session, session.identity.session_name)
        for record in _session_records(session):
            self._state.journal.write(record)

    def _replay(self, record: journal.Record) -> None:  # noqa: C901, PLR0912 - one case for each record
        match record:
            case journal.SessionSaved():
                self._session(record)
            case journal.SessionEnded(client_id):
                self._end(client_id)
            case journal.SubscriptionSaved():
                self._subscription(record)
            case journal.SubscriptionRemoved(client_id, key):
                session = self._state.sessions.find(client_id)
                if session is not None and key in session.subscriptions:
                    self._state.index.leave(session.subscriptions.pop(key))
            case journal.MessageQueued():
                self._message(record)
            case journal.MessageSent(client_id, position, packet_id):
                delivery = self._deliveries.get((client_id, position))
                if delivery is not None:
                    delivery.packet_id = packet_id
                    delivery.was_written = True
                    delivery.stage = Stage.SENT
            case journal.MessageReleased(client_id, position):
                delivery = self._deliveries.get((client_id, position))
                if delivery is not None:
                    delivery.stage = Stage.RELEASED
            case journal.MessageDone(client_id, position):
                self._deliveries.pop((client_id, position), None)
            case journal.PacketReceived(client_id, packet_id):
                session = self._state.sessions.find(client_id)
                if session is not None:
                    session.incoming.accept_qos2(packet_id)
            case journal.PacketReleased(client_id, packet_id):
                session = self._state.sessions.find(client_id)
                if session is not None:
                    session.incoming.release(packet_id)
            case journal.RetainedSaved(message):
                self._state.retained.put(message)
                self._retained_writer.watch(message)
            case journal.RetainedRemoved(topic):
                self._state.retained.remove(topic)

    def _session(self, record: journal.SessionSaved) -> None:
        session = self._state.sessions.find(record.client_id)
        if session is None:
            client_id = record.client_id.rpartition("\0")[2]
            session = Session(
                Identity(client_id, record.user_name),
                self._state.limits,
                record.host,
                self._state.shares,
            )
            # Earlier releases named the sessions of all users by their client ids.
            session.name = record.client_id
            self._state.sessions.add(session)
        self._state.sessions.move(session, record.host)
        session.expiry_interval = record.expiry_interval
        session.expires_at = record.expires_at
        session.will = record.will
        session.will_at = record.will_at
        session.is_recorded = self._state.journal.enabled

    def _end(self, client_id: str) -> None:
        session = self._state.sessions.find(client_id)
        if session is not None:
            for subscription in session.subscriptions.values():
                self._state.index.leave(subscription)
            self._state.sessions.remove(session)
            session.will = None
            session.outgoing.clear()
            session.incoming.clear()
        for key in [key for key in self._deliveries if key[0] == client_id]:
            del self._deliveries[key]

    def _subscription(self, record: journal.SubscriptionSaved) -> None:
        session = self._state.sessions.find(record.client_id)
        if session is None:
            return
        terms = record.terms
        before = session.subscriptions.pop(terms.key, None)
        if before is not None:
            self._state.index.leave(before)
        subscription = Subscription(session, terms)
        # It was accepted once, so it is accepted again, also above the present limit.
        parsed, _ = parse_subscription(terms.topic_filter, terms.topic_filter.count("/") + 1)
        self._state.index.enter(subscription, parsed)
        session.subscriptions[terms.key] = subscription
        if terms.name is not None:
            self._state.named_arrivals[subscription] = None

    def _message(self, record: journal.MessageQueued) -> None:
        session = self._state.sessions.find(record.client_id)
        if session is None:
            return
        held = [session.subscriptions[key] for key in record.keys if key in session.subscriptions]
        delivery = Delivery(record.message, record.qos, tuple(held), retain=record.retain)
        delivery.position = record.position
        self._deliveries[record.client_id, record.position] = delivery


def durable_parts(state: CoreState) -> Iterator[list[journal.Record]]:
    """Yield everything that must survive, as records that restore it, in parts.

    A part is a session, or some retained messages, as they are when it is asked for. A store
    that has it and all records since that moment has the present state, so the broker need not
    stop for it.
    """
    for session in list(state.sessions):
        if session.expiry_interval and state.sessions.find(session.name) is session:
            yield list(_session_records(session))
    topics = [one.topic for one in state.retained if not one.topic.startswith(SYSTEM_PREFIX)]
    for start in range(0, len(topics), _RETAINED_IN_PART):
        found = map(state.retained.find, topics[start : start + _RETAINED_IN_PART])
        yield [journal.RetainedSaved(message) for message in found if message is not None]


def _session_records(session: Session) -> Iterator[journal.Record]:
    client_id = session.name
    yield session.record()
    for subscription in session.subscriptions.values():
        yield journal.SubscriptionSaved(client_id, subscription.terms)
    for packet_id in session.incoming.received:
        yield journal.PacketReceived(client_id, packet_id)
    flow = session.outgoing
    waiting = [one for one in flow.queue if not one.packet_id]
    for delivery in (*flow.identified.values(), *waiting):
        yield from _delivery_records(session, delivery)


def _delivery_records(session: Session, delivery: Delivery) -> Iterator[journal.Record]:
    if not delivery.qos:
        return
    if not delivery.position:
        session.last_position += 1
        delivery.position = session.last_position
    client_id, position = session.name, delivery.position
    yield queued_record(client_id, delivery)
    if delivery.qos == 2 and delivery.packet_id:
        yield journal.MessageSent(client_id, position, delivery.packet_id)
        if delivery.stage is Stage.RELEASED:
            yield journal.MessageReleased(client_id, position)
