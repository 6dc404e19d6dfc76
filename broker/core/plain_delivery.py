"""A delivery of the fast path of QoS 1: a tuple, until more than a PUBACK happens to it.

Most deliveries are written, acknowledged and forgotten within milliseconds. Objects for message
and delivery would be half of what such a message costs; the tuple has all to make them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from broker.codec.publish import PEID_VALUE_AT
from broker.core.message import Delivery, Message, Stage

if TYPE_CHECKING:
    from broker.core.subscribe.routes import Route
    from broker.core.subscribe.subscription import Subscription

# Properties and payload as they are sent; how many bytes are properties; the route of the topic;
# the subscription that matched; the bytes that limits count; its place in the session's order and
# its position in the journal, 0 if it is not recorded.
PlainDelivery: TypeAlias = "tuple[bytes, int, Route, Subscription, int, int, int]"
# Where the last three of these stand.
SIZE: Final = 4
PLACE: Final = 5
RECORD: Final = 6


def plain_message(route: Route, content: bytes, length: int) -> Message:
    """Return a message of QoS 1 whose properties, of ``length`` bytes, are one peid or none."""
    digits = content[PEID_VALUE_AT:length]
    return Message(
        route.topic,
        content[length:],
        properties=content[:length],
        qos=1,
        peid=int(digits) if digits else None,
        topic_field=route.topic_field,
    )


def to_delivery(plain: PlainDelivery, packet_id: int) -> Delivery:
    """Return the same as an object: sent, and not acknowledged."""
    content, length, route, subscription, _, place, _ = plain
    delivery = Delivery(plain_message(route, content, length), 1, (subscription,))
    delivery.position = place
    delivery.packet_id = packet_id
    delivery.stage = Stage.SENT
    return delivery
