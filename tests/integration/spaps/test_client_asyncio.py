"""The asyncio client on a real broker."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from spaps import AsyncSpatialClient
from spaps.client import aio_client
from spaps.client.errors import (
    AnswerTimeoutError,
    ClientUseError,
    NotConnectedError,
    SubscribeRefusedError,
)
from tests.scenes.surroundings import Surroundings
from tests.servers.running_broker import PATIENCE, RunningBroker


def test_neighborhoods_with_asyncio(open_broker: RunningBroker, surroundings: Surroundings) -> None:
    async def scenario() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            AsyncSpatialClient("127.0.0.1", open_broker.port) as client,
        ):
            nsid = await client.subscribe("aio/spatial", surroundings.descriptor, qos=1)
            given_back = await client.subscribe("aio/spatial", surroundings.descriptor, nsid=77)
            assert given_back == 77
            await client.unsubscribe(77)
            with pytest.raises(ClientUseError, match="77"):
                await client.unsubscribe(77)
            assert client.warnings(nsid) == ()
            await client.subscribe_topic("aio/plain")
            await client.publish("aio/spatial", "out", peid=surroundings.outside, qos=1)
            await client.publish("aio/spatial", "in", peid=surroundings.inside, qos=1)
            await client.publish("aio/plain", "plain")
            received = []
            async for message in client.messages():
                received.append((message.payload, message.nsids, message.peid))
                if message.payload == b"plain":
                    break
            assert received == [(b"in", (nsid,), surroundings.inside), (b"plain", (), None)]

    asyncio.run(scenario())


def test_refusals_with_asyncio(open_broker: RunningBroker) -> None:
    async def scenario() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            AsyncSpatialClient("127.0.0.1", open_broker.port) as client,
        ):
            with pytest.raises(SubscribeRefusedError, match="999999999"):
                await client.subscribe("a", "({999999999},{road/#},C)")
            with pytest.raises(ClientUseError):
                await client.publish("a", peid=-1)
        with pytest.raises(NotConnectedError):
            await AsyncSpatialClient("127.0.0.1", 1).__aenter__()

    asyncio.run(scenario())


def test_a_lost_connection_ends_messages_and_calls(open_broker: RunningBroker) -> None:
    """The broker closes a connection when another client takes over its client id."""

    async def scenario() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            AsyncSpatialClient("127.0.0.1", open_broker.port, client_id="aio-twin") as first,
        ):
            await first.subscribe_topic("aio/lost")
            await first.publish("aio/lost", "before", qos=1)
            reader = asyncio.create_task(_payloads(first))
            async with AsyncSpatialClient("127.0.0.1", open_broker.port, client_id="aio-twin"):
                assert await reader == [b"before"]
                assert await _payloads(first) == []
                for qos in (0, 1):
                    with pytest.raises(NotConnectedError):
                        await first.publish("aio/lost", "after", qos=qos)
                with pytest.raises(NotConnectedError):
                    await first.subscribe_topic("aio/lost")

    asyncio.run(scenario())


async def _payloads(client: AsyncSpatialClient) -> list[bytes]:
    """What comes until the connection is lost."""
    payloads: list[bytes] = []
    try:
        async for message in client.messages():
            payloads.append(message.payload)  # noqa: PERF401  kept when the iterator raises
    except NotConnectedError:
        return payloads
    pytest.fail("messages ended without an error")


def test_a_refused_message_is_logged(
    open_broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            AsyncSpatialClient("127.0.0.1", open_broker.port) as client,
        ):
            await client.publish("$SYS/broker/forbidden", "x", qos=1)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "message refused, Not authorized (0x87)" in caplog.text


def test_many_messages_at_once(open_broker: RunningBroker) -> None:
    async def scenario() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            AsyncSpatialClient("127.0.0.1", open_broker.port) as client,
        ):
            await client.subscribe_topic("aio/many", qos=1)
            await asyncio.gather(
                *(client.publish("aio/many", str(number), qos=1) for number in range(300))
            )
            expected = {str(number).encode() for number in range(300)}
            async for message in client.messages():
                expected.remove(message.payload)
                if not expected:
                    break

    asyncio.run(scenario())


def test_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a time limit of the caller nor the end of the loop waits for CONNACK."""
    monkeypatch.setattr(aio_client, "ANSWER_SECONDS", 3600.0)

    async def scenario(port: int) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await AsyncSpatialClient("127.0.0.1", port).__aenter__()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(scenario(silent.getsockname()[1]))


def test_an_answer_that_is_late(open_broker: RunningBroker, surroundings: Surroundings) -> None:
    async def scenario() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            AsyncSpatialClient("127.0.0.1", open_broker.port) as client,
        ):
            with pytest.raises(AnswerTimeoutError, match="no answer within 0 s"):
                await client.subscribe("aio/late", surroundings.descriptor, nsid=3, timeout=0)
            with pytest.raises(ClientUseError, match="3"):
                await client.unsubscribe(3)
            await client.subscribe("aio/late", surroundings.descriptor, nsid=4, qos=1)
            await client.publish("aio/late", "in", peid=surroundings.inside, qos=1)
            async for message in client.messages():
                assert message.nsids == (4,)
                break

    asyncio.run(scenario())
