"""What the broker counts. Plain integers: metrics and $SYS read them, nobody writes back."""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum


class Drop(Enum):
    """Why a message did not reach a client that subscribed to it, or nobody at all."""

    SLOW_CONSUMER = "slow_consumer"  # QoS 0 while the client does not read
    QUEUE_FULL = "queue_full"
    EXPIRED = "expired"
    TOO_LARGE = "too_large"  # over the client's maximum packet size
    NOT_ALLOWED = "not_allowed"  # the reader's right is gone or was never there
    UNSUBSCRIBED = "unsubscribed"  # while it waited
    REFUSED = "refused"  # QoS 0 PUBLISH that the client may not make
    BAD_PEID = "bad_peid"
    NO_MEMBERSHIPS = "no_memberships"  # they could not be asked
    BAD_TOPIC = "bad_topic"
    RETAINED_FULL = "retained_full"
    WILL_NOT_ALLOWED = "will_not_allowed"


class Counters:
    """Totals since the start."""

    __slots__ = (
        "bytes_received", "bytes_sent", "connections", "drops", "filter_times", "matches",
        "packets_received", "protocol_errors", "publish_bytes_received",
        "publish_bytes_sent", "publishes_received", "publishes_sent", "refused_connects",
        "sessions_expired", "spatial_publishes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.connections = 0
        self.refused_connects = 0
        self.protocol_errors = 0
        self.publishes_received = 0
        self.publish_bytes_received = 0
        self.publishes_sent = 0
        self.publish_bytes_sent = 0
        # PUBLISHes with a peid, and the neighborhood subscriptions they met.
        self.spatial_publishes = 0
        self.matches = 0
        self.sessions_expired = 0
        self.drops: Counter[Drop] = Counter()
        # Seconds from peid to subscriptions, a sample: one for each chunk that was read.
        self.filter_times: deque[float] = deque(maxlen=4_096)
