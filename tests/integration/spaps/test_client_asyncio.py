"""The asyncio client on a real broker."""

from __future__ import annotations

import asyncio

import pytest

from spaps import AsyncSpatialClient
from spaps.client.errors import ClientUseError, NotConnectedError, SubscribeRefusedError
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
