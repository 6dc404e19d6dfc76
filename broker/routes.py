"""Routes: what a topic leads to, worked out once for each topic and remembered.

A route names filter nodes and share groups, not subscriptions, so it holds while subscriptions
come and go under filters that stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.codec.reason_codes import ReasonCode
from broker.codec.text import check_text
from broker.gateway import GatewayRules
from broker.limits import BrokerLimits
from broker.subscription import FilterNode, ShareGroup
from broker.topic_tree import TopicTree
from broker.topics import SYSTEM_PREFIX, check_topic_name

if TYPE_CHECKING:
    from broker.session import Session


class Route:
    """Everything that is the same for all messages on a topic.

    ``spatial`` holds the nodes and groups that have neighborhoods. ``readers`` are sessions
    known to be allowed to receive the topic. ``refusal`` is why clients may not publish to it.
    """

    __slots__ = (
        "gateway_peid", "groups", "is_simple", "plain", "readers", "refusal", "spatial",
        "topic", "topic_field",
    )  # fmt: skip

    def __init__(self, topic: str, encoded: bytes, nodes: list[FilterNode]) -> None:
        self.topic = topic
        self.topic_field = len(encoded).to_bytes(2, "big") + encoded
        self.plain = tuple(node for node in nodes if node.plain)
        self.groups = tuple(group for node in nodes for group in node.groups.values())
        homes: list[FilterNode | ShareGroup] = [*nodes, *self.groups]
        self.spatial = frozenset(home for home in homes if home.spatial)
        self.readers: set[Session] = set()
        self.gateway_peid: int | None = None
        self.refusal: ReasonCode | None = None
        self.is_simple = not self.groups


class Routes:
    """Routes by topic, as the topic stands in a packet."""

    __slots__ = ("_gateway", "_limits", "_tree", "by_topic")

    def __init__(self, tree: TopicTree, gateway: GatewayRules, limits: BrokerLimits) -> None:
        self._tree = tree
        self._gateway = gateway
        self._limits = limits
        self.by_topic: dict[bytes, Route] = {}

    def of(self, encoded: bytes) -> Route:
        """The route of a topic; ProtocolError when it is no topic name."""
        route = self.by_topic.get(encoded)
        if route is None:
            topic = check_text(encoded)
            check_topic_name(topic)
            route = self._make(topic, encoded)
            if len(self.by_topic) >= self._limits.cached_routes:
                self.by_topic.clear()
            self.by_topic[encoded] = route
        return route

    def clear(self) -> None:
        """Forget everything: a filter came or went, or rights changed."""
        self.by_topic.clear()

    def _make(self, topic: str, encoded: bytes) -> Route:
        if topic.count("/") >= self._limits.topic_levels:
            route = Route(topic, encoded, [])
            route.refusal = ReasonCode.TOPIC_NAME_INVALID
        else:
            route = Route(topic, encoded, list(self._tree.match(topic)))
            if topic.startswith(SYSTEM_PREFIX):
                route.refusal = ReasonCode.NOT_AUTHORIZED
        route.gateway_peid = self._gateway.peid_of(topic)
        route.is_simple = route.is_simple and route.refusal is None
        return route
