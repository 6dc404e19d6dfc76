"""Subscriptions in force: entered under their filter, and found by topic.

A route is made once for each topic. It has the filter entries and share groups that match, not
subscriptions, so it stays valid while these come and go under the same filters.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Final

from broker.codec.fields import (
    SHARE_PREFIX,
    SYSTEM_PREFIX,
    ParsedFilter,
    check_text,
    check_topic_name,
)
from broker.codec.publish import GatewayRules
from broker.codec.reason_codes import ReasonCode
from broker.core.counters import TOPIC_BYTES_OF_WORK, Counters
from broker.core.limits import BrokerLimits
from broker.core.subscribe.subscription import FilterEntry, ShareGroup, SlotTable, Subscription
from broker.core.subscribe.topic_tree import LEVEL_BYTES, TopicTree
from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.sessions.session import Session

# A route and its entry without its topic and its receivers, as measured; a reader of a route.
ROUTE_BYTES: Final = 1_000
READER_BYTES: Final = 100
# Sessions that ended while routes hold them, before all routes are forgotten.
MOST_ENDED_READERS: Final = 1_000
# A subscription, its terms, its filter's entry and its places in dictionaries, as measured.
SUBSCRIPTION_BYTES: Final = 700
# A neighborhood's slot, numbers and entry under its filter. Its members are counted elsewhere.
NEIGHBORHOOD_BYTES: Final = 700


class Route:
    """Everything that is the same for all messages on a topic.

    ``spatial`` holds the entries and groups that have neighborhoods. ``readers`` are sessions
    known to be allowed to receive the topic. ``refusal`` is why clients may not publish to it.
    ``is_waiting``: the members of a neighborhood under it are not known yet.
    """

    __slots__ = (
        "gateway_peid", "groups", "is_simple", "is_waiting", "plain", "readers", "refusal",
        "spatial", "topic", "topic_field",
    )  # fmt: skip

    def __init__(self, topic: str, encoded: bytes, entries: list[FilterEntry]) -> None:
        self.topic = topic
        self.topic_field = len(encoded).to_bytes(2, "big") + encoded
        self.plain = tuple(entry for entry in entries if entry.plain)
        self.groups = tuple(group for entry in entries for group in entry.groups.values())
        homes: list[FilterEntry | ShareGroup] = [*entries, *self.groups]
        self.spatial = frozenset(home for home in homes if home.spatial)
        self.readers: set[Session] = set()
        self.gateway_peid: int | None = None
        self.refusal: ReasonCode | None = None
        self.is_waiting = False
        self.is_simple = not self.groups


class Routes:
    """Routes by topic, as the topic stands in a packet."""

    __slots__ = (
        "_counters", "_ended", "_gateway", "_limits", "_tree", "_waiting", "by_topic", "bytes",
    )  # fmt: skip

    def __init__(
        self, tree: TopicTree, gateway: GatewayRules, limits: BrokerLimits, counters: Counters
    ) -> None:
        self._tree = tree
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
            if topic.startswith(SYSTEM_PREFIX):
                route.refusal = ReasonCode.NOT_AUTHORIZED
        route.gateway_peid = self._gateway.peid_of(topic)
        route.is_waiting = not self._waiting.isdisjoint(route.spatial)
        route.is_simple = route.is_simple and route.refusal is None and not route.is_waiting
        return route


def _bytes_of(route: Route) -> int:
    """Return about what a route takes in memory: its topic is text once, and bytes twice."""
    homes = len(route.plain) + len(route.groups) + 8 * len(route.spatial)
    return ROUTE_BYTES + getsizeof(route.topic) + 2 * len(route.topic_field) + 8 * homes


def subscription_bytes(topic_filter: str, descriptor: str | None) -> int:
    """Return about what a subscription to this filter takes in memory, and rather more.

    The text of the filter is there as a whole and once more in its levels; that of a shared
    subscription also without its prefix. Levels that filters share are counted for each.
    """
    copies = 3 if topic_filter.startswith(SHARE_PREFIX) else 2
    size = SUBSCRIPTION_BYTES + copies * getsizeof(topic_filter)
    size += LEVEL_BYTES * (topic_filter.count("/") + 1)
    if descriptor is not None:
        size += NEIGHBORHOOD_BYTES + getsizeof(descriptor)
    return size


class SubscriptionIndex:
    """The only place where subscriptions become active or cease to be."""

    __slots__ = ("_routes", "_slots", "_tree", "count", "shared_count")

    def __init__(self, tree: TopicTree, routes: Routes, slots: SlotTable) -> None:
        self._tree = tree
        self._routes = routes
        self._slots = slots
        self.count = 0
        self.shared_count = 0

    def enter(
        self,
        subscription: Subscription,
        parsed: ParsedFilter,
        peids: Int64s | None = None,
        slot: int | None = None,
        coming: Int64s | None = None,
    ) -> None:
        """Put a subscription in force; a neighborhood's members enter with it.

        With a reserved ``slot`` they were entered before. Routes are forgotten only when one of
        them must name another entry or group.
        """
        entry = self._tree.entry_of(parsed.topic_filter)
        home: FilterEntry | ShareGroup = entry
        if parsed.share_name is not None:
            home = entry.groups.get(parsed.share_name) or ShareGroup(parsed.share_name, entry)
            entry.groups[parsed.share_name] = home
            subscription.group = home
            self.shared_count += 1
        subscription.home = home
        if subscription.terms.nsid is None:
            is_first = not home.plain
            home.plain[subscription.session] = subscription
        else:
            is_first = not home.spatial
            self._slots.enter(subscription, peids, slot, coming)
            home.spatial[subscription.slot] = subscription
        subscription.active = True
        terms = subscription.terms
        subscription.bytes = subscription_bytes(terms.topic_filter, terms.descriptor)
        subscription.session.count_in(subscription)
        self.count += 1
        if is_first:
            self._routes.clear()

    def leave(self, subscription: Subscription) -> None:
        """Take a subscription out of force, at once and for everything that waits for it."""
        home = subscription.home
        if home is None:
            raise ValueError("the subscription is not in force")
        if subscription.terms.nsid is None:
            del home.plain[subscription.session]
            was_last = not home.plain
        else:
            del home.spatial[subscription.slot]
            self._slots.leave(subscription)
            was_last = not home.spatial
        subscription.home = None
        subscription.active = False
        subscription.session.count_out(subscription)
        self.count -= 1
        if isinstance(home, ShareGroup):
            self.shared_count -= 1
            home.served.pop(subscription.session, None)
        if was_last:
            self._prune(home)
            self._routes.clear()

    def _prune(self, home: FilterEntry | ShareGroup) -> None:
        entry = home.entry if isinstance(home, ShareGroup) else home
        if isinstance(home, ShareGroup) and not home.plain and not home.spatial:
            del entry.groups[home.share_name]
        if entry.is_empty:
            self._tree.remove(entry.topic_filter)
