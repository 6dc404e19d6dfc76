"""What the core counts, the units of work among it, and samples of the time of the filter."""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Final

from broker.filter.memberships import SlotOwner

if TYPE_CHECKING:
    from broker.core.core_state import CoreState

# At most a hundred samples of the filter a second, and one for a message that comes alone.
SAMPLE_SECONDS: Final = 0.01
# Units of work: a plain copy of QoS 0 is one. A matching subscription elsewhere costs more.
WORK_OF_A_MATCH: Final = 8
# So many bytes to write are one unit more.
BYTES_OF_WORK: Final = 64
# A packet of QoS 1 or of the general path, what PUBLISH, SUBSCRIBE and UNSUBSCRIBE cost beyond it,
# and each topic filter of the latter.
WORK_OF_A_PACKET: Final = 8
WORK_OF_A_PUBLISH: Final = 24
WORK_OF_A_SUBSCRIBE: Final = 80
WORK_OF_A_FILTER: Final = 24
# So many bytes of a topic that is checked and routed for the first time. They cost less, but each
# read has a budget of its own, and a read holds only a few long topics.
TOPIC_BYTES_OF_WORK: Final = 4


class Drop(Enum):
    """Why a message did not reach a client that subscribed to it, or no client at all."""

    SLOW_CONSUMER = "slow_consumer"  # QoS 0 while the client does not read
    QUEUE_FULL = "queue_full"  # that of the session
    TOTAL_QUEUE_FULL = "total_queue_full"  # the user's share of what all sessions may hold
    AWAY = "away"  # QoS 0 for a share group, none of whose members is connected
    EXPIRED = "expired"
    SESSION_ENDED = "session_ended"  # of a member of a share group, and no other could take it
    TOO_LARGE = "too_large"  # over the client's maximum packet size
    NOT_ALLOWED = "not_allowed"  # the reader's right is gone or was never there
    UNSUBSCRIBED = "unsubscribed"  # while it waited
    REFUSED = "refused"  # QoS 0 PUBLISH that the client may not make
    BAD_PEID = "bad_peid"
    PEID_MISMATCH = "peid_mismatch"  # with the peid that a gateway rule reads from the topic
    NO_MEMBERSHIPS = "no_memberships"  # they could not be asked
    NEIGHBORHOOD_WAITS = "neighborhood_waits"  # for its members, after a start
    BAD_TOPIC = "bad_topic"
    RETAINED_FULL = "retained_full"
    WILL_NOT_ALLOWED = "will_not_allowed"


class Refusal(Enum):
    """The limit because of which something that a client asked for was refused."""

    FILTERS_PER_PACKET = "filters_per_packet"
    WAITING_SUBSCRIBES = "waiting_subscribes"
    SUBSCRIPTIONS = "subscriptions"
    NEIGHBORHOODS = "neighborhoods"
    PAIRS = "pairs"
    TOTAL_PAIRS = "total_pairs"
    SUBSCRIPTION_BYTES = "subscription_bytes"
    TOTAL_SUBSCRIPTION_BYTES = "total_subscription_bytes"
    WAITING_RETAINED = "waiting_retained"
    INPUT_BYTES = "input_bytes"
    OUTPUT_BYTES = "output_bytes"
    USER_PROPERTIES = "user_properties"
    WILLS = "wills"


class Counters:
    """Totals since the start. The metrics pages and $SYS read them."""

    __slots__ = (
        "bytes_received", "bytes_sent", "connections", "drops", "filter_times", "matches",
        "packets_received", "protocol_errors", "puback_bytes_received", "publish_bytes_received",
        "publish_bytes_sent", "publishes_received", "publishes_sent", "refusals",
        "refused_connects", "sessions_expired", "spatial_publishes", "turns_given_up", "work",
        "work_limit",
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
        # Those of short PUBACK packets in a row.
        self.puback_bytes_received = 0
        self.publishes_sent = 0
        self.publish_bytes_sent = 0
        # PUBLISHes with a peid, and the neighborhood subscriptions that matched.
        self.spatial_publishes = 0
        self.matches = 0
        self.sessions_expired = 0
        # Units of work so far, and at which number the present read must let others come first.
        self.work = 0
        self.turns_given_up = 0
        self.work_limit = 0
        self.drops: Counter[Drop] = Counter()
        # Topic filters and CONNECTs that were refused, by the limit that was reached.
        self.refusals: Counter[Refusal] = Counter()
        # Seconds from peid to subscriptions, a sample: one for each chunk that was read.
        self.filter_times: deque[float] = deque(maxlen=4_096)


class FilterSampler:
    """Times the filter once more for one message; from ``due`` on the next one may be taken.

    It does so in all modes of memberships, and at each QoS.
    """

    __slots__ = ("_state", "due")

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self.due = 0.0

    def look_at(self, topic: bytes, peid: int) -> None:
        """Measure with this message if the next sample is due."""
        if (now := self._state.clock()) >= self.due:
            self.take(topic, peid, now)

    def take(self, topic: bytes, peid: int, now: float) -> None:
        """Measure what leads from a topic and an entity to the subscriptions."""
        state = self._state
        began = perf_counter()
        route = state.routes.by_topic.get(topic)
        slots = state.memberships.look_up_function(peid)
        if route is not None and slots:
            if type(slots) is SlotOwner:
                _ = slots.home in route.spatial
            else:
                _ = [slot for slot in slots if state.slots.slot_owners[slot].home in route.spatial]
        state.counters.filter_times.append(perf_counter() - began)
        self.due = now + SAMPLE_SECONDS
