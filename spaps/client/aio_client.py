"""``AsyncSpatialClient``: ``SpatialClient`` for asyncio.

paho runs on its own network thread, and its callbacks are handed to the event loop. A client is
for one connection: after a lost connection, enter a new client and subscribe again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, Unpack

from paho.mqtt.packettypes import PacketTypes

from spaps.client.answers import Answer, AnswerFuture
from spaps.client.connection import ClientConnection, OnNeighborhoodChange, Payload
from spaps.client.errors import AnswerTimeoutError, ClientUseError, NotConnectedError
from spaps.client.message import CHANGES_TOPIC, Message, check_topic, packet_properties, peid_pair
from spaps.client.options import ConnectionOptions
from spaps.client.subscriptions import (
    AnyNeighborhood,
    Request,
    Subscriptions,
    checked_nsid,
    descriptor_text,
    end_text,
)

log = logging.getLogger(__name__)

# The broker may resolve a neighborhood for 10 s, and others may wait before it.
SUBSCRIBE_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 10.0


class AsyncSpatialClient:
    """A client of a spaPS broker for ``async with``. ``options`` are those of ``SpatialClient``.

    ``on_neighborhood_change`` is called on the event loop for each neighborhood of this client
    that a new world version has changed, whether ``messages`` is read or not.
    """

    def __init__(
        self,
        hostname: str = "localhost",
        port: int | None = None,
        *,
        on_neighborhood_change: OnNeighborhoodChange | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        self._on_change = on_neighborhood_change
        # None: the connection has ended, and no further message comes.
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection = ClientConnection(
            hostname,
            port,
            options,
            on_message=lambda message: self._hand_over(self._inbox.put_nowait, message),
            on_change=None
            if on_neighborhood_change is None
            else lambda change: self._hand_over(self._changed, change),
            on_lost=lambda: self._hand_over(self._inbox.put_nowait, None),
        )
        self._subscriptions = Subscriptions(self._connection)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._inbox = asyncio.Queue()
        try:
            await asyncio.to_thread(self._connection.connect, ANSWER_SECONDS)
            if self._on_change is not None:
                await self.subscribe_topic(CHANGES_TOPIC, qos=1)
        except BaseException:
            # Not awaited: a task that is cancelled must not wait here. It ends ``connect`` too.
            self._connection.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._connection.close)

    async def subscribe(
        self,
        topic: str,
        neighborhood: AnyNeighborhood,
        *,
        qos: int = 0,
        nsid: int | None = None,
        timeout: float = SUBSCRIBE_SECONDS,  # noqa: ASYNC109  as in SpatialClient
    ) -> int:
        """Subscribe to a neighborhood; return its nsid when it is in force."""
        request = Request(topic, qos, descriptor_text(neighborhood), checked_nsid(nsid))
        granted = (await self._subscribe(request, timeout)).nsid
        if granted is None:
            # It has granted the topic alone, and would send everything.
            await self._end(topic, None)
            raise ClientUseError(f"{request}: this broker does not support neighborhoods")
        return granted

    async def subscribe_topic(self, topic: str, *, qos: int = 0) -> int | None:
        """Subscribe to a topic filter; return the nsid of ``$neighborhood/NAME/FILTER``."""
        return (await self._subscribe(Request(topic, qos), SUBSCRIBE_SECONDS)).nsid

    async def unsubscribe(self, nsid: int) -> None:
        """End one neighborhood."""
        await self._end(self._subscriptions.topic_of(nsid), nsid)

    def warnings(self, nsid: int) -> tuple[str, ...]:
        """Return the broker's warnings about a neighborhood."""
        return self._subscriptions.warnings(nsid)

    async def publish(
        self,
        topic: str,
        payload: Payload = None,
        *,
        peid: int | None = None,
        qos: int = 0,
        retain: bool = False,
        user_properties: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Publish a message about an entity; return when the broker has it (QoS 1 and 2).

        A message that the broker refuses is logged with the reason.
        """
        check_topic(topic)
        pairs = [*user_properties, *([] if peid is None else [peid_pair(peid)])]
        properties = packet_properties(PacketTypes.PUBLISH, pairs)
        if qos == 0:
            self._connection.publish(topic, payload, qos, retain=retain, properties=properties)
            return
        future = self._connection.publish_and_ask(
            topic, payload, qos, retain=retain, properties=properties
        )
        await _answer_of(future, f"message to {topic[:80]!r}", ANSWER_SECONDS)

    async def messages(self) -> AsyncIterator[Message]:
        """Yield messages as they come; raise NotConnectedError when the connection ends."""
        inbox = self._inbox
        while (message := await inbox.get()) is not None:
            yield message
        inbox.put_nowait(None)  # for others that read messages
        raise NotConnectedError("the connection was lost")

    async def _subscribe(self, request: Request, timeout: float) -> Request:  # noqa: ASYNC109
        answer = await _answer_of(self._subscriptions.ask(request), str(request), timeout)
        return self._subscriptions.grant(request, answer)

    async def _end(self, topic: str, nsid: int | None) -> None:
        future = self._subscriptions.ask_end(topic, nsid)
        self._subscriptions.end(
            topic, nsid, await _answer_of(future, end_text(topic), ANSWER_SECONDS)
        )

    def _hand_over(self, action: Callable[[Any], object], argument: object) -> None:
        """Call a function on the event loop; runs on the network thread."""
        # The event loop may have ended before the connection.
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(action, argument)

    def _changed(self, change: Any) -> None:
        try:
            if self._on_change is not None:
                self._on_change(change)
        except Exception:
            log.exception("on_neighborhood_change failed")


async def _answer_of(future: AnswerFuture, what: str, timeout: float) -> Answer:  # noqa: ASYNC109
    """Return the answer without blocking the event loop; raise AnswerTimeoutError when late."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout)
    except TimeoutError:
        raise AnswerTimeoutError(f"{what}: no answer within {timeout:g} s") from None
