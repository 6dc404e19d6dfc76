"""``AsyncSpatialClient``: the same words as ``SpatialClient``, for asyncio, over aiomqtt.

Thin on purpose: aiomqtt connects, sends and waits; this adds what is spatial. Like aiomqtt's, a
client is for one connection: who wants to come back enters a new one and subscribes again.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, cast

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from spaps.client.answers import Answer, read_answer
from spaps.client.errors import (
    AnswerTimeoutError,
    ClientUseError,
    NotConnectedError,
    PublishRefusedError,
)
from spaps.client.message import (
    Message,
    check_topic,
    message_of,
    numbers_of,
    packet_properties,
    peid_pair,
)
from spaps.client.neighborhoods import (
    AnyNeighborhood,
    HeldSubscriptions,
    Request,
    checked_nsid,
    refusal_of,
    written,
)
from spaps.client.notices import NeighborhoodChange, changes_from_json
from spaps.client.protocol import CHANGES_TOPIC, NSID, WARNING

log = logging.getLogger(__name__)

SUBSCRIBE_SECONDS: Final = 30.0


class _Connection(aiomqtt.Client):
    """aiomqtt gives the codes of a SUBACK and drops the rest; here each comes with its reason."""

    def _on_subscribe(
        self, client: Any, userdata: Any, mid: int, reason_codes: Any, properties: Any = None
    ) -> None:
        answer: Any = [read_answer(reason_codes, properties)]
        super()._on_subscribe(client, userdata, mid, answer, properties)

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason_code: Any, properties: Any
    ) -> None:
        if reason_code.is_failure:
            reason = getattr(properties, "ReasonString", None)
            log.warning(
                "%s",
                PublishRefusedError("message", reason_code.value, str(reason_code), reason),
            )
        super()._on_publish(client, userdata, mid, reason_code, properties)

    # Gets the changes of neighborhoods, which then are no messages; None: they are.
    on_change: Callable[[NeighborhoodChange], object] | None = None

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        if self.on_change is None or message.topic != CHANGES_TOPIC:
            super()._on_message(client, userdata, message)
            return
        try:
            for change in changes_from_json(message.payload):
                self.on_change(change)
        except Exception:
            # It must not end the connection.
            log.exception("on_neighborhood_change failed")


class AsyncSpatialClient:
    """A client of a spaPS broker. ``options`` are aiomqtt's (``username``, ``tls_params``, …).

    ``on_neighborhood_change`` is called on the event loop for each neighborhood of this client
    that another state of the world has changed, whether ``messages`` is read or not.
    """

    def __init__(
        self,
        hostname: str = "localhost",
        port: int = 1883,
        *,
        on_neighborhood_change: Callable[[NeighborhoodChange], object] | None = None,
        **options: Any,
    ) -> None:
        self._client = _Connection(hostname, port, protocol=aiomqtt.ProtocolVersion.V5, **options)
        self._client.on_change = on_neighborhood_change
        self._held = HeldSubscriptions()

    async def __aenter__(self) -> Self:
        try:
            await self._client.__aenter__()
        except aiomqtt.MqttError as error:
            raise NotConnectedError(f"no connection: {error}") from error
        if self._client.on_change is not None:
            try:
                await self.subscribe_topic(CHANGES_TOPIC, qos=1)
            except BaseException as error:
                await self.__aexit__(type(error), error, error.__traceback__)
                raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, traceback)

    async def subscribe(
        self,
        topic: str,
        neighborhood: AnyNeighborhood,
        *,
        qos: int = 0,
        nsid: int | None = None,
        timeout: float = SUBSCRIBE_SECONDS,  # noqa: ASYNC109  aiomqtt counts it, as its users expect
    ) -> int:
        """Subscribe to a neighborhood; its nsid, when it is in force."""
        request = Request(topic, qos, written(neighborhood), checked_nsid(nsid))
        answer = await self._ask(request, timeout)
        nsids = numbers_of(answer.user_properties, NSID)
        if not nsids:
            await self._client.unsubscribe(topic)
            raise ClientUseError(f"{request}: this broker knows no neighborhoods")
        warnings = tuple(value for name, value in answer.user_properties if name == WARNING)
        self._held.add(replace(request, nsid=nsids[0]), warnings)
        return nsids[0]

    async def subscribe_topic(self, topic: str, *, qos: int = 0) -> None:
        """Subscribe to everything under a topic filter."""
        await self._ask(Request(topic, qos), SUBSCRIBE_SECONDS)

    async def unsubscribe(self, nsid: int) -> None:
        """Give one neighborhood back."""
        held = self._held.neighborhoods().get(nsid)
        if held is None:
            raise ClientUseError(f"this client holds no neighborhood {nsid}")
        pairs = [(NSID, str(nsid))]
        properties = packet_properties(PacketTypes.UNSUBSCRIBE, pairs)
        try:
            await self._client.unsubscribe(held.topic, properties=properties)
        except aiomqtt.MqttError as error:
            raise NotConnectedError(f"unsubscribe: {error}") from error
        self._held.remove(nsid)

    def warnings(self, nsid: int) -> tuple[str, ...]:
        """What the broker remarked when it granted a neighborhood."""
        return self._held.warnings(nsid)

    async def publish(
        self,
        topic: str,
        payload: bytes | bytearray | str | float | None = None,
        *,
        peid: int | None = None,
        qos: int = 0,
        retain: bool = False,
        user_properties: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Send a message about an entity; returns when the broker has it (QoS 1 and 2).

        A message that the broker refuses is logged: aiomqtt does not hand its reason on.
        """
        check_topic(topic)
        pairs = [*user_properties, *([] if peid is None else [peid_pair(peid)])]
        properties = packet_properties(PacketTypes.PUBLISH, pairs)
        try:
            await self._client.publish(topic, payload, qos, retain, properties)
        except aiomqtt.MqttError as error:
            raise NotConnectedError(f"publish: {error}") from error
        except ValueError as error:
            raise ClientUseError(f"message to {topic[:80]!r}: {error}") from error

    async def messages(self) -> AsyncIterator[Message]:
        """Messages as they come, until the connection ends."""
        try:
            async for message in self._client.messages:
                yield message_of(
                    str(message.topic), message.payload, message.qos,
                    retain=message.retain, properties=message.properties,
                )  # fmt: skip
        except aiomqtt.MqttError as error:
            raise NotConnectedError(f"the connection was lost: {error}") from error

    async def _ask(self, request: Request, timeout: float) -> Answer:  # noqa: ASYNC109  as above
        pairs = request.user_properties()
        try:
            answers = await self._client.subscribe(
                request.topic,
                options=SubscribeOptions(qos=request.qos),
                properties=packet_properties(PacketTypes.SUBSCRIBE, pairs),
                timeout=timeout,
            )
        except aiomqtt.MqttError as error:
            if "timed out" in str(error):
                raise AnswerTimeoutError(f"{request}: no answer within {timeout:g} s") from error
            raise NotConnectedError(f"{request}: {error}") from error
        except ValueError as error:
            raise ClientUseError(f"{request}: {error}") from error
        answer = cast("list[Answer]", answers)[0]
        refusal = refusal_of(request, answer)
        if refusal is not None:
            raise refusal
        return answer
