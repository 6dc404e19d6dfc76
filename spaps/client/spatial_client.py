"""``SpatialClient``: publish about entities, subscribe to neighborhoods, over paho-mqtt."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self, Unpack

from paho.mqtt.packettypes import PacketTypes

from spaps.client.errors import ClientError, ClientUseError
from spaps.client.link import ClientLink, OnMessage, OnNeighborhoodChange, OnProblem
from spaps.client.message import check_topic, packet_properties, peid_pair
from spaps.client.neighborhoods import (
    AnyNeighborhood,
    HeldSubscriptions,
    Request,
    checked_nsid,
    written,
)
from spaps.client.options import ConnectionOptions
from spaps.client.protocol import CHANGES_TOPIC
from spaps.client.publication import Publication
from spaps.client.subscriptions import Subscribing

# The broker may resolve a neighborhood for 10 s, and others may wait before it.
SUBSCRIBE_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 10.0


class SpatialClient:
    """A client of a spaPS broker. Use it with ``with``, or call ``connect`` and ``close``.

    ``on_message`` gets each message on the network thread: it may publish, and cannot wait there
    for an answer of the broker. ``on_problem`` gets errors that belong to no call (a
    neighborhood refused after a reconnect, a message that was refused, an exception in
    ``on_message``); without it they are logged. ``on_neighborhood_change`` gets a
    ``NeighborhoodChange`` for each neighborhood of this client that another state of the world
    has changed, also for what happened while a session was away.

    A lost connection comes back by itself, and what the broker has forgotten meanwhile is
    asked for again, with the same nsids.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int | None = None,
        *,
        on_message: OnMessage | None = None,
        on_problem: OnProblem | None = None,
        on_neighborhood_change: OnNeighborhoodChange | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        self._link = ClientLink(host, port, options, on_message, on_problem, on_neighborhood_change)
        self._wants_changes = on_neighborhood_change is not None
        self._held = HeldSubscriptions()
        self._subscribing = Subscribing(self._link, self._held)

    def connect(self, timeout: float = ANSWER_SECONDS) -> Self:
        """Connect; returns when the broker has let us in."""
        self._link.connect(timeout)
        if self._wants_changes:
            # Also in a session that was taken up: the same subscription again changes nothing.
            try:
                self._subscribing.subscribe(Request(CHANGES_TOPIC, qos=1), timeout)
            except ClientError:
                self.close()
                raise
        return self

    def close(self) -> None:
        """Say goodbye. What was published and not waited for may not have left yet."""
        self._link.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the broker has let us in and the connection stands."""
        return self._link.is_connected

    @property
    def nsids(self) -> tuple[int, ...]:
        """The neighborhoods that this client holds."""
        return tuple(self._held.neighborhoods())

    def warnings(self, nsid: int) -> tuple[str, ...]:
        """What the broker remarked when it granted a neighborhood, such as: always empty."""
        return self._held.warnings(nsid)

    def subscribe(
        self,
        topic: str,
        neighborhood: AnyNeighborhood,
        *,
        qos: int = 0,
        nsid: int | None = None,
        timeout: float = SUBSCRIBE_SECONDS,
    ) -> int:
        """Subscribe to what is about entities of a neighborhood; gives its nsid.

        When it returns, the neighborhood is in force: no matching message is missed from here
        on. An ``nsid`` that is in use replaces that subscription.
        """
        request = Request(topic, _checked(qos), written(neighborhood), checked_nsid(nsid))
        return self._subscribing.subscribe_neighborhood(request, timeout)

    def subscribe_topic(self, topic: str, *, qos: int = 0, timeout: float = ANSWER_SECONDS) -> None:
        """Subscribe to everything under a topic filter, whatever it is about."""
        self._subscribing.subscribe(Request(topic, _checked(qos)), timeout)

    def unsubscribe(
        self, nsid: int, *, topic: str | None = None, timeout: float = ANSWER_SECONDS
    ) -> None:
        """Give one neighborhood back; no message comes for it after that.

        ``topic`` is needed only for one that an earlier process has subscribed to.
        """
        if topic is None:
            held = self._held.neighborhoods().get(nsid)
            if held is None:
                raise ClientUseError(f"this client holds no neighborhood {nsid}")
            topic = held.topic
        self._subscribing.give_back(topic, nsid, timeout)

    def unsubscribe_topic(self, topic: str, *, timeout: float = ANSWER_SECONDS) -> None:
        """Give back everything under this filter, its neighborhoods too."""
        self._subscribing.give_back(topic, None, timeout)

    def publish(
        self,
        topic: str,
        payload: bytes | bytearray | str | float | None = None,
        *,
        peid: int | None = None,
        qos: int = 0,
        retain: bool = False,
        user_properties: Iterable[tuple[str, str]] = (),
        **properties: Any,
    ) -> Publication:
        """Send a message about an entity; ``wait()`` on the result for the broker's word.

        More ``properties`` by the names that paho has for them (``MessageExpiryInterval=60``).
        While the connection is away, QoS 1 and 2 wait for it and QoS 0 is an error.
        """
        check_topic(topic, has_alias="TopicAlias" in properties)
        pairs = [*user_properties, *([] if peid is None else [peid_pair(peid)])]
        told = packet_properties(PacketTypes.PUBLISH, pairs, **properties)
        return self._link.publish(topic, payload, _checked(qos), retain=retain, properties=told)


def _checked(qos: int) -> int:
    if qos not in (0, 1, 2):
        raise ClientUseError(f"QoS is 0, 1 or 2, not {qos!r}")
    return qos
