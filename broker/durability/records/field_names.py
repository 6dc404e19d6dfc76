"""The fields of a session's hash in Redis; what follows the letter tells those of a kind apart."""

from __future__ import annotations

from typing import Final

from broker.core.subscribe.subscription import SubscriptionKey

SESSION_FIELD: Final = "s"
WILL_FIELD: Final = "w"
PLAIN_FIELD: Final = "f"  # + topic filter
NEIGHBORHOOD_FIELD: Final = "n"  # + nsid
QUEUE_FIELD: Final = "q"  # + position
PACKET_ID_FIELD: Final = "i"  # + position: the identifier that a QoS 2 message keeps
RECEIVED_FIELD: Final = "r"  # + packet identifier


def subscription_field(key: SubscriptionKey) -> str:
    """The field of a subscription."""
    return f"{PLAIN_FIELD if isinstance(key, str) else NEIGHBORHOOD_FIELD}{key}"
