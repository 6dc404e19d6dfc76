"""``SpatialClient``: publish about entities, subscribe to neighborhoods, over paho-mqtt."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self, Unpack

from paho.mqtt.packettypes import PacketTypes

from spaps.client.answers import Publication, wait_for
from spaps.client.connection import (
    ClientConnection,
    OnMessage,
    OnNeighborhoodChange,
    OnProblem,
    Payload,
)
from spaps.client.errors import ClientError, ClientUseError
from spaps.client.message import CHANGES_TOPIC, check_topic, packet_properties, peid_pair
from spaps.client.options import ConnectionOptions
from spaps.client.subscriptions import (
    AnyNeighborhood,
    Request,
    Subscriptions,
    checked_nsid,
    descriptor_text,
    end_text,
)

# The broker may resolve a neighborhood for 10 s, and others may wait before it.
SUBSCRIBE_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 10.0


class SpatialClient:
    """A client of a spaPS broker. Use it with ``with``, or call ``connect`` and ``close``.

    ``on_message`` is called with each message, on the network thread. It may publish there, but
    it cannot wait there for an answer of the broker. ``on_problem`` is called with errors that
    belong to no call: a neighborhood that is refused after a reconnect, a message that is refused,
    an exception in ``on_message``. Without it they are logged. ``on_neighborhood_change`` is called
    with a ``NeighborhoodChange`` for each neighborhood of this client that a new world version has
    changed, and after a reconnect for the changes that a kept session has missed.

    The client reconnects after a lost connection. If the broker has lost the session, the client
    subscribes again, with the same nsids.
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
        self._connection = ClientConnection(
            host,
            port,
            options,
            on_message=on_message,
            on_problem=on_problem,
            on_change=on_neighborhood_change,
        )
        self._wants_changes = on_neighborhood_change is not None
        self._subscriptions = Subscriptions(self._connection)

    def connect(self, timeout: float = ANSWER_SECONDS) -> Self:
        """Connect; return when the broker has accepted the client."""
        self._connection.connect(timeout)
        if self._wants_changes:
            # Also in a resumed session: the same subscription again changes nothing.
            try:
                self._subscribe(Request(CHANGES_TOPIC, qos=1), timeout)
            except ClientError:
                self.close()
                raise
        return self

    def close(self) -> None:
        """Disconnect. Messages that were not waited for may be lost."""
        self._connection.close()

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
        """Whether the broker has accepted the client and the connection stands."""
        return self._connection.is_connected

    @property
    def nsids(self) -> tuple[int, ...]:
        """The nsids of the neighborhoods that this client holds."""
        return self._subscriptions.nsids()

    def warnings(self, nsid: int) -> tuple[str, ...]:
        """Return the broker's warnings about a neighborhood, such as: always empty."""
        return self._subscriptions.warnings(nsid)

    def subscribe(
        self,
        topic: str,
        neighborhood: AnyNeighborhood,
        *,
        qos: int = 0,
        nsid: int | None = None,
        timeout: float = SUBSCRIBE_SECONDS,
    ) -> int:
        """Subscribe to messages about entities of a neighborhood; return its nsid.

        When this returns, the neighborhood is in force: no matching message is missed from here
        on. An ``nsid`` that is in use replaces that subscription.
        """
        request = Request(topic, _checked(qos), descriptor_text(neighborhood), checked_nsid(nsid))
        granted = self._subscribe(request, timeout).nsid
        if granted is None:
            # It has granted the topic alone, and would send everything.
            self.unsubscribe_topic(topic, timeout=timeout)
            raise ClientUseError(f"{request}: this broker does not support neighborhoods")
        return granted

    def subscribe_topic(
        self, topic: str, *, qos: int = 0, timeout: float = ANSWER_SECONDS
    ) -> int | None:
        """Subscribe to all messages under a topic filter, with or without a peid.

        The filter may be ``$neighborhood/NAME/FILTER``: then only to those about entities of the
        named neighborhood. Return the nsid of such a subscription, None for other filters.
        """
        return self._subscribe(Request(topic, _checked(qos)), timeout).nsid

    def unsubscribe(
        self, nsid: int, *, topic: str | None = None, timeout: float = ANSWER_SECONDS
    ) -> None:
        """End one neighborhood; no message comes for it after that.

        ``topic`` is needed only for a subscription that an earlier process has made.
        """
        self._end(self._subscriptions.topic_of(nsid) if topic is None else topic, nsid, timeout)

    def unsubscribe_topic(self, topic: str, *, timeout: float = ANSWER_SECONDS) -> None:
        """End all subscriptions under this topic filter, with their neighborhoods."""
        self._end(topic, None, timeout)

    def publish(
        self,
        topic: str,
        payload: Payload = None,
        *,
        peid: int | None = None,
        qos: int = 0,
        retain: bool = False,
        user_properties: Iterable[tuple[str, str]] = (),
        **properties: Any,
    ) -> Publication:
        """Publish a message about an entity; ``wait()`` on the result for the broker's answer.

        ``properties`` are MQTT properties by paho's names (``MessageExpiryInterval=60``).
        While the connection is away, QoS 1 and 2 wait for it and QoS 0 is an error.
        """
        check_topic(topic, has_alias="TopicAlias" in properties)
        pairs = [*user_properties, *([] if peid is None else [peid_pair(peid)])]
        sent = packet_properties(PacketTypes.PUBLISH, pairs, **properties)
        return self._connection.publish(
            topic, payload, _checked(qos), retain=retain, properties=sent
        )

    def _subscribe(self, request: Request, timeout: float) -> Request:
        self._connection.check_may_wait()
        answer = wait_for(self._subscriptions.ask(request), str(request), timeout)
        return self._subscriptions.grant(request, answer)

    def _end(self, topic: str, nsid: int | None, timeout: float) -> None:
        self._connection.check_may_wait()
        answer = wait_for(self._subscriptions.ask_end(topic, nsid), end_text(topic), timeout)
        self._subscriptions.end(topic, nsid, answer)


def _checked(qos: int) -> int:
    if qos not in (0, 1, 2):
        raise ClientUseError(f"QoS is 0, 1 or 2, not {qos!r}")
    return qos
