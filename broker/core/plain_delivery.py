"""What the fast paths deliver: copies of packets, and a tuple for each delivery of QoS 1.

The tuple stands for a delivery until more than a PUBACK happens to it. Most deliveries are written,
acknowledged and forgotten within milliseconds. Objects for message and delivery would be half of
what such a message costs; the tuple has all to make them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.codec.publish import PEID_VALUE_AT, QOS_0_HEADERS, SHORT_LENGTHS
from broker.core.message import Delivery, Message, Stage

if TYPE_CHECKING:
    from broker.core.subscribe.routes import Route
    from broker.core.subscribe.subscription import Subscription


class TopicTexts(NamedTuple):
    """A topic as text, and as it stands in a packet.

    Not its route: that may be forgotten to free its memory, while deliveries still wait.
    """

    topic: str
    field: bytes


# Properties and payload as they are sent; how many bytes are properties; the topic; the
# subscription that matched; the bytes that limits count; its place in the session's order and
# its position in the journal, 0 if it is not recorded.
PlainDelivery: TypeAlias = "tuple[bytes, int, TopicTexts, Subscription, int, int, int]"
# Where the last three of these stand.
SIZE: Final = 4
PLACE: Final = 5
RECORD: Final = 6


def plain_message(texts: TopicTexts, content: bytes, length: int) -> Message:
    """Return a message of QoS 1 whose properties, of ``length`` bytes, are one peid or none."""
    digits = content[PEID_VALUE_AT:length]
    return Message(
        texts.topic,
        content[length:],
        properties=content[:length],
        qos=1,
        peid=int(digits) if digits else None,
        topic_field=texts.field,
    )


def to_delivery(plain: PlainDelivery, packet_id: int) -> Delivery:
    """Return the same as an object: sent, and not acknowledged."""
    content, length, texts, subscription, _, place, _ = plain
    delivery = Delivery(plain_message(texts, content, length), 1, (subscription,))
    delivery.position = place
    delivery.packet_id = packet_id
    delivery.stage = Stage.SENT
    return delivery


def packet_message(route: Route, packet: bytes, at: int) -> Message:
    """Return a packet of QoS 0 as a message, for receivers that take no plain copy."""
    payload_at = at + packet[at - 1]
    digits = packet[at + PEID_VALUE_AT : payload_at]
    return Message(
        route.topic,
        packet[payload_at:],
        properties=packet[at:payload_at],
        peid=int(digits) if digits else route.gateway_peid,
        topic_field=route.topic_field,
    )


def with_extra(route: Route, packet: bytes, at: int, extra: bytes) -> bytes:
    """Return the packet with more properties, which come first."""
    remaining = len(route.topic_field) + 1 + len(extra) + len(packet) - at
    length = SHORT_LENGTHS[packet[at - 1] + len(extra)]
    return b"".join((QOS_0_HEADERS[remaining], route.topic_field, length, extra, packet[at:]))


def without_properties(route: Route, packet: bytes, at: int) -> bytes:
    """Return the packet for a client of MQTT 3."""
    payload_at = at + packet[at - 1]
    remaining = len(route.topic_field) + len(packet) - payload_at
    return b"".join((QOS_0_HEADERS[remaining], route.topic_field, packet[payload_at:]))
