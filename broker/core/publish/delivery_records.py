"""What the journal keeps of a delivery: that it waits for its client, and that it is over."""

from __future__ import annotations

from broker.core.journal import Journal, MessageDone, MessageQueued
from broker.core.sessions.outgoing_flow import Delivery
from broker.core.sessions.session import Session


def record_waiting(journal: Journal, session: Session, delivery: Delivery) -> None:
    """Note that a message is owed to a session that is kept; QoS 0 never is."""
    if not delivery.qos or not session.is_recorded:
        return
    session.last_position += 1
    delivery.position = session.last_position
    keys = tuple(one.terms.key for one in delivery.subscriptions)
    journal.write(
        MessageQueued(
            session.name,
            delivery.position,
            delivery.message,
            delivery.qos,
            delivery.retain,
            keys,
        )
    )


def record_done(journal: Journal, session: Session, delivery: Delivery) -> None:
    """Note that it is not owed any more."""
    if delivery.position and session.is_recorded:
        journal.write(MessageDone(session.name, delivery.position))
