"""Where messages on a topic go, and the entity that the topic names: found once, and remembered.

A route has the filter entries and share groups that match, not subscriptions. So it stays valid
while these come and go under the same filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from broker.codec.fields import SYSTEM_PREFIX, check_text, check_topic_name
from broker.codec.gateway_rules import GatewayRules
from broker.codec.publish import peid_property
from broker.codec.reason_codes import ReasonCode
from broker.core.counters import TOPIC_BYTES_OF_WORK, Counters
from broker.core.limits import BrokerLimits
from broker.core.message import DELIVERY_BYTES, topic_bytes
from broker.core.plain_delivery import TopicTexts
from broker.core.requests import FindKeys, Outbox
from broker.core.subscribe.subscription import FilterEntry, ShareGroup
from broker.core.subscribe.topic_tree import TopicTree
from broker.core.trace import Trace
from schemas.named_neighborhood import NAME_PREFIX

if TYPE_CHECKING:
    from broker.core.sessions.session import Session

# A route and its entry without its topic and its receivers, as measured; a reader of a route.
ROUTE_BYTES: Final = 1_000
READER_BYTES: Final = 100
# A key and its entry without its text.
KEY_BYTES: Final = 200
# Sessions that ended while routes hold them, before all routes are forgotten.
MOST_ENDED_READERS: Final = 1_000


class Route:
    """Everything that is the same for all messages on a topic.

    ``spatial`` holds the entries and groups that have neighborhoods. ``readers`` are sessions
    known to be allowed to receive the topic. ``refusal`` is why clients may not publish to it.
    ``is_waiting``: the members of a neighborhood under it are not known yet.
    """

    __slots__ = (
        "delivery_bytes", "gateway_key", "gateway_peid", "groups", "is_simple",
        "is_simple_once_settled", "is_waiting", "peid_property", "plain", "readers", "refusal",
        "spatial", "texts", "topic", "topic_field",
    )  # fmt: skip

    def __init__(self, topic: str, encoded: bytes, entries: list[FilterEntry]) -> None:
        self.topic = topic
        self.topic_field = len(encoded).to_bytes(2, "big") + encoded
        self.texts = TopicTexts(topic, self.topic_field)
        # What each delivery costs beside its properties and payload, as limits count it.
        self.delivery_bytes = topic_bytes(topic, self.topic_field) + DELIVERY_BYTES
        self.plain = tuple(entry for entry in entries if entry.plain)
        self.groups = tuple(group for entry in entries for group in entry.groups.values())
        homes: list[FilterEntry | ShareGroup] = [*entries, *self.groups]
        self.spatial = frozenset(home for home in homes if home.spatial)
        self.readers: set[Session] = set()
        # The key of the entity that the topic names, until its peid is known; then None.
        self.gateway_key: str | None = None
        # The entity that the topic names, and the property that tells receivers.
        self.gateway_peid: int | None = None
        self.peid_property = b""
        self.refusal: ReasonCode | None = None
        self.is_waiting = False
        self.is_simple = not self.groups
        # The same without regard to the key, which the fast path does not look up.
        self.is_simple_once_settled = False

    def name_entity(self, peid: int | None) -> None:
        """Set the entity that the topic names, if it names one."""
        self.gateway_peid = peid
        self.peid_property = b"" if peid is None else peid_property(peid)

    def settle_key(self, peid: int) -> None:
        """Set the entity that has the key in the topic: from now on the route is like others."""
        self.gateway_key = None
        self.name_entity(peid)
        self.is_simple = self.is_simple_once_settled


class Routes:
    """Routes by topic, as the topic stands in a packet."""

    __slots__ = (
        "_counters", "_ended", "_gateway", "_limits", "_trace", "_tree", "_waiting", "by_topic",
        "bytes",
    )  # fmt: skip

    def __init__(
        self,
        tree: TopicTree,
        gateway: GatewayRules,
        limits: BrokerLimits,
        counters: Counters,
        trace: Trace,
    ) -> None:
        self._tree = tree
        self._trace = trace
        self._gateway = gateway
        self._limits = limits
        self._counters = counters
        self.by_topic: dict[bytes, Route] = {}
        # Where neighborhoods are entered whose members are not known yet.
        self._waiting: frozenset[FilterEntry | ShareGroup] = frozenset()
        # About what the remembered routes take in memory.
        self.bytes = 0
        # Sessions without a client that may still be among the readers of a route.
        self._ended = 0

    def of(self, encoded: bytes) -> Route:
        """Return the route of a topic; ProtocolError when it is no topic name."""
        route = self.by_topic.get(encoded)
        if route is None:
            topic = check_text(encoded)
            check_topic_name(topic)
            route = self._make(topic, encoded)
            if len(self.by_topic) >= self._limits.cached_routes:
                self.clear()
            self.by_topic[encoded] = route
            self._count(_bytes_of(route))
        return route

    def mark_waiting(self, homes: Iterable[FilterEntry | ShareGroup]) -> None:
        """Mark the routes to these entries and groups as waiting, and no others."""
        waiting = frozenset(homes)
        if waiting != self._waiting:
            self._waiting = waiting
            self.clear()

    def clear(self) -> None:
        """Forget all routes: a filter came or went, rights changed, or memory is used up."""
        self.by_topic.clear()
        self.bytes = 0
        self._ended = 0

    def add_reader(self, route: Route, session: Session) -> None:
        """Remember that a session may receive the topic."""
        if session not in route.readers:
            route.readers.add(session)
            self._count(READER_BYTES)

    def reader_left(self) -> None:
        """Note that a session that routes may hold has no client; many are forgotten together."""
        self._ended += 1
        if self._ended > MOST_ENDED_READERS:
            self.clear()

    def _count(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self._limits.cached_route_bytes:
            self.clear()

    def _make(self, topic: str, encoded: bytes) -> Route:
        self._counters.work += len(encoded) // TOPIC_BYTES_OF_WORK
        if topic.count("/") >= self._limits.topic_levels:
            route = Route(topic, encoded, [])
            route.refusal = ReasonCode.TOPIC_NAME_INVALID
        else:
            before = self._tree.visited
            entries = list(self._tree.match(topic))
            self._counters.work += self._tree.visited - before + len(entries)
            route = Route(topic, encoded, entries)
            if topic.startswith((SYSTEM_PREFIX, NAME_PREFIX)):
                route.refusal = ReasonCode.NOT_AUTHORIZED
        entity = self._gateway.entity_of(topic)
        if isinstance(entity, int):
            route.name_entity(entity)
        else:
            route.gateway_key = entity
        route.is_waiting = not self._waiting.isdisjoint(route.spatial)
        is_traced = self._trace.is_on and self._trace.covers_topic(topic)
        if route.refusal is not None or route.is_waiting or is_traced:
            route.is_simple = False
        route.is_simple_once_settled = route.is_simple
        route.is_simple &= route.gateway_key is None
        return route


def _bytes_of(route: Route) -> int:
    """Return about what a route takes in memory: its topic is text once, and bytes twice."""
    homes = len(route.plain) + len(route.groups) + 8 * len(route.spatial)
    return ROUTE_BYTES + getsizeof(route.topic) + 2 * len(route.topic_field) + 8 * homes


class EntityKeys:
    """The peids of keys in topics, of at most ``limit`` bytes; beyond that all are forgotten.

    The same key has the same peid in every world version, so what was found stays right. A key
    that no entity has may be that of a new one after a switch.
    """

    __slots__ = ("_limit", "_outbox", "_peids", "_routes", "bytes")

    def __init__(self, outbox: Outbox, routes: Routes, limit: int) -> None:
        self._outbox = outbox
        self._routes = routes
        self._limit = limit
        # None: no entity has the key.
        self._peids: dict[str, int | None] = {}
        self.bytes = 0

    def is_settled(self, route: Route) -> bool:
        """Return whether the entity of a topic is known, and note it in the route if it exists."""
        key = route.gateway_key
        if key is None:
            return True
        if key not in self._peids:
            return False
        peid = self._peids[key]
        if peid is not None:
            route.settle_key(peid)
        return True

    def ask(self, keys: tuple[str, ...], then: Callable[[str | None], None]) -> None:
        """Request the peids of keys; ``then`` is called with None, or why there is no answer."""

        def came(found: Mapping[str, int], error: str | None) -> None:
            if error is None:
                self._remember({key: found.get(key) for key in keys})
            then(error)

        self._outbox.requests.append(FindKeys(keys, came))

    def forget_unknown(self) -> None:
        """Forget the keys that no entity had, because another world version is in force."""
        unknown = [key for key, peid in self._peids.items() if peid is None]
        for key in unknown:
            del self._peids[key]
            self.bytes -= _key_bytes(key)
        if unknown:
            self._routes.clear()

    def _remember(self, peids: Mapping[str, int | None]) -> None:
        # Before all of them: the messages that asked need each one.
        if self.bytes > self._limit:
            self._peids.clear()
            self.bytes = 0
        for key in peids.keys() - self._peids.keys():
            self.bytes += _key_bytes(key)
        self._peids.update(peids)


def _key_bytes(key: str) -> int:
    return KEY_BYTES + getsizeof(key)
