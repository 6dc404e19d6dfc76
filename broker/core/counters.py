"""What the broker counts and measures, and the $SYS topics that publish it.

The $SYS topics have Mosquitto's names, so that exporters and dashboards work unchanged.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Final

from broker.core.message import Message
from broker.filter.memberships import SlotOwner

if TYPE_CHECKING:
    from broker.core.core_state import CoreState

# At most a hundred samples of the filter a second, and one for a message that comes alone.
SAMPLE_SECONDS: Final = 0.01
# Units of work: a copy on the fast path is one. A matching subscription elsewhere costs more.
WORK_OF_A_MATCH: Final = 8
# So many bytes to write are one unit more.
BYTES_OF_WORK: Final = 64
# A packet that is not for the fast path, what PUBLISH, SUBSCRIBE and UNSUBSCRIBE cost beyond it,
# and each topic filter of the latter.
WORK_OF_A_PACKET: Final = 8
WORK_OF_A_PUBLISH: Final = 24
WORK_OF_A_SUBSCRIBE: Final = 80
WORK_OF_A_FILTER: Final = 24
# So many bytes of a topic that is checked and routed for the first time. They cost less, but each
# read has a budget of its own, and a read holds only a few long topics.
TOPIC_BYTES_OF_WORK: Final = 4


class Drop(Enum):
    """Why a message did not reach a client that subscribed to it, or nobody at all."""

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


_WINDOWS: Final = (("1min", 60.0), ("5min", 300.0), ("15min", 900.0))


class _Load:
    """A rate for each minute, averaged with less weight on older values."""

    __slots__ = ("_last", "_rates", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._last = 0
        self._rates = [0.0] * len(_WINDOWS)

    def update(self, total: int, seconds: float) -> Iterator[tuple[str, str]]:
        rate = (total - self._last) * 60.0 / seconds
        self._last = total
        for number, (window, length) in enumerate(_WINDOWS):
            weight = math.exp(-seconds / length)
            self._rates[number] = rate + weight * (self._rates[number] - rate)
            yield f"load/{self.name}/{window}", f"{self._rates[number]:.2f}"


class SysTopics:
    """Publishes the broker's figures, only those that changed."""

    __slots__ = ("_interval", "_last", "_loads", "_publish", "_started", "_state", "_updated")

    def __init__(
        self, state: CoreState, publish: Callable[[Message], None], version: str, interval: float
    ) -> None:
        self._state = state
        self._publish = publish
        self._interval = interval
        self._started = self._updated = state.clock()
        self._last: dict[str, str] = {}
        self._loads: dict[str, _Load] = {}
        self._publish_figure("version", f"spaps version {version}")
        state.timers.at(self._started + interval, self._update)

    def _update(self) -> None:
        now = self._state.clock()
        for name, value in self._figures(now):
            self._publish_figure(name, value)
        self._updated = now
        self._state.timers.at(now + self._interval, self._update)

    def _publish_figure(self, name: str, value: str) -> None:
        if self._last.get(name) != value:
            self._last[name] = value
            self._publish(Message(f"$SYS/broker/{name}", value.encode(), retain=True))

    def _figures(self, now: float) -> Iterator[tuple[str, str]]:
        state = self._state
        counters, sessions, retained = state.counters, state.sessions, state.retained
        yield "uptime", f"{int(now - self._started)} seconds"
        dropped = sum(counters.drops.values())
        packets_sent = counters.publishes_sent + state.output_gate.answers
        connected = sessions.connected
        stored = [len(one.outgoing.queue) + len(one.outgoing.unacknowledged) for one in sessions]
        totals = {
            "clients/total": len(sessions),
            "clients/connected": connected,
            "clients/active": connected,
            "clients/disconnected": len(sessions) - connected,
            "clients/inactive": len(sessions) - connected,
            "clients/maximum": sessions.most_connected,
            "clients/expired": counters.sessions_expired,
            "messages/received": counters.packets_received,
            "messages/sent": packets_sent,
            "messages/stored": sum(stored) + retained.count,
            "store/messages/count": sum(stored) + retained.count,
            "store/messages/bytes": sum(one.outgoing.bytes for one in sessions) + retained.bytes,
            "publish/messages/received": counters.publishes_received,
            "publish/messages/sent": counters.publishes_sent,
            "publish/messages/dropped": dropped,
            "publish/bytes/received": counters.publish_bytes_received,
            "publish/bytes/sent": counters.publish_bytes_sent,
            "bytes/received": counters.bytes_received,
            "bytes/sent": counters.bytes_sent,
            "retained messages/count": retained.count,
            "subscriptions/count": state.index.count,
            "shared_subscriptions/count": state.index.shared_count,
            "neighborhoods/count": len(state.slots),
        }
        for name, total in totals.items():
            yield name, str(total)
        seconds = max(now - self._updated, 1e-3)
        for name, total in (
            ("messages/received", counters.packets_received),
            ("messages/sent", packets_sent),
            ("publish/received", counters.publishes_received),
            ("publish/sent", counters.publishes_sent),
            ("publish/dropped", dropped),
            ("bytes/received", counters.bytes_received),
            ("bytes/sent", counters.bytes_sent),
            ("connections", counters.connections),
            ("sockets", counters.connections),
        ):
            load = self._loads.setdefault(name, _Load(name))
            yield from load.update(total, seconds)


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
