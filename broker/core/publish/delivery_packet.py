"""The PUBLISH packet of one delivery: our own properties, and topic aliases towards the client."""

from __future__ import annotations

from typing import Final

from broker.core.journal import Journal, MessageDone, MessageQueued
from broker.core.message import publish_parts
from broker.core.sessions.connection import Connection
from broker.core.sessions.outgoing_flow import Delivery
from broker.core.sessions.session import Session

_TOPIC_ALIAS: Final = b"\x23"
_NO_TOPIC: Final = b"\x00\x00"


def delivery_packet(
    connection: Connection, delivery: Delivery, now: float, *, is_again: bool, new_alias: bool
) -> tuple[bytes, ...]:
    """The packet in parts; ``new_alias``: whether it may introduce an alias that later ones use."""
    message = delivery.message
    # Sent again it says what it said before, also when a subscription has ended since: MQTT wants
    # what was begun to be completed, and without its nsid nobody knows what it is for.
    extra = b"".join([one.extra for one in delivery.subscriptions if one.active or is_again])
    topic_field = message.topic_field
    aliases = connection.aliases_out
    alias, is_known = aliases.of(topic_field) if aliases is not None else (0, False)
    uses_alias = alias != 0 and (is_known or new_alias)
    if uses_alias:
        extra = _TOPIC_ALIAS + alias.to_bytes(2, "big") + extra
        if is_known:
            topic_field = _NO_TOPIC
    packet = publish_parts(
        topic_field,
        message.payload,
        message.properties_at(now),
        extra=extra,
        qos=delivery.qos,
        retain=delivery.retain,
        duplicate=is_again,
        packet_id=delivery.packet_id,
    )
    if aliases is not None and uses_alias and not is_known:
        limit = connection.maximum_packet_size
        if limit is not None and sum(map(len, packet)) > limit:
            # The alias itself may be what makes it too large.
            return delivery_packet(connection, delivery, now, is_again=is_again, new_alias=False)
        aliases.sent(message.topic_field, alias)
    return packet


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
