"""TLS, WebSocket and both together, with paho as the client, and odd WebSocket clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import paho.mqtt.client as paho
import pytest
import websockets
from paho.mqtt.enums import CallbackAPIVersion
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from tests.servers.certificates import Certificates
from tests.servers.raw_client import (
    CONNACK,
    SUBACK,
    connect_packet,
    publish_packet,
    subscribe_packet,
)
from tests.servers.running_broker import PATIENCE, RunningBroker, running_broker


@pytest.fixture(scope="module")
def broker(
    certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    secure = f"""
    bind = "127.0.0.1:0"
    ssl = true
    certfile = "{certificates.server}"
    keyfile = "{certificates.server_key}"
    cafile = "{certificates.authority}"
    """
    config = f"""
    [broker]
    websocket_origins = ["https://allowed.example"]
    [broker.listeners.tls]
    type = "tcp"
    {secure}
    [broker.listeners.web]
    type = "ws"
    bind = "127.0.0.1:0"
    [broker.listeners.secure-web]
    type = "ws"
    {secure}
    """
    arguments = ("--memberships", "none", "--allow-anonymous", "--http", "0")
    folder = tmp_path_factory.mktemp("transports")
    with running_broker(folder, *arguments, config=config) as running:
        yield running


@pytest.mark.parametrize("listener", ["default", "tls", "web", "secure-web"])
@pytest.mark.parametrize("size", [10, 300_000])
def test_a_message_goes_there_and_back(
    listener: str, size: int, broker: RunningBroker, certificates: Certificates
) -> None:
    transport = "websockets" if "web" in listener else "tcp"
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, transport=transport)
    if listener in ("tls", "secure-web"):
        client.tls_set(str(certificates.authority))
    received: Queue[bytes] = Queue()
    client.on_connect = lambda *_: client.subscribe("there", qos=1)
    client.on_subscribe = lambda *_: client.publish("there", b"x" * size, qos=1)
    client.on_message = lambda _client, _data, message: received.put(message.payload)
    client.connect("127.0.0.1", broker.ports[listener])
    client.loop_start()
    assert received.get(timeout=PATIENCE) == b"x" * size
    client.disconnect()
    client.loop_stop()


def test_a_client_certificate_is_checked(
    broker: RunningBroker, certificates: Certificates, tmp_path: Path
) -> None:
    async def connect(certificate: Path, key: Path) -> bytes:
        trust = ssl.create_default_context(cafile=certificates.authority)
        trust.load_cert_chain(certificate, key)
        port = broker.ports["tls"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        writer.write(connect_packet())
        try:
            return await reader.read(1)
        finally:
            writer.close()

    del tmp_path
    assert asyncio.run(connect(certificates.client, certificates.client_key)) == bytes([CONNACK])


def test_plain_bytes_at_the_tls_port_harm_nobody(broker: RunningBroker) -> None:
    async def scenario() -> None:
        port = broker.ports["tls"]
        for data in (connect_packet(), b"\x16\x03\x01\xff\xff", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                while await reader.read(100):
                    pass
            writer.close()

    asyncio.run(scenario())


class WebClient:
    """A WebSocket that sends what it is told to."""

    def __init__(self, broker: RunningBroker, **options: Any) -> None:
        protocols = [websockets.Subprotocol("mqtt")]
        uri = f"ws://127.0.0.1:{broker.ports['web']}"
        self.connecting = websockets.connect(uri, subprotocols=protocols, **options)


async def read_until(client: ClientConnection, ending: bytes) -> bytes:
    """All that comes, up to and with the ending."""
    received = b""
    async with asyncio.timeout(PATIENCE):
        while not received.endswith(ending):
            received += bytes(await client.recv())  # type: ignore[arg-type]
    return received


def closing_code(broker: RunningBroker, message: bytes | str) -> int | None:
    """The code with which the broker closes after a message."""

    async def scenario() -> int | None:
        async with WebClient(broker).connecting as client:
            await client.send(message)
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(client.recv(), PATIENCE)
            return client.close_code

    return asyncio.run(scenario())


def test_packets_may_be_cut_and_joined_in_any_way(broker: RunningBroker) -> None:
    stream = connect_packet("cut") + subscribe_packet("w") + publish_packet("w", b"whole")

    async def scenario(pieces: list[bytes]) -> bytes:
        async with WebClient(broker).connecting as client:
            for piece in pieces:
                await client.send(piece)
            return await read_until(client, b"whole")

    at_once = asyncio.run(scenario([stream]))
    assert at_once[0] == CONNACK
    assert asyncio.run(scenario([stream[at : at + 1] for at in range(len(stream))])) == at_once


def test_text_is_refused(broker: RunningBroker) -> None:
    assert closing_code(broker, "hello") == 1003


def test_a_stranger_may_send_little(broker: RunningBroker) -> None:
    assert closing_code(broker, b"\x10" + b"x" * 70_000) == 1009

    async def known() -> None:
        async with WebClient(broker).connecting as client:
            await client.send(connect_packet("known") + subscribe_packet("w"))
            await client.recv()
            await client.send(publish_packet("w", b"x" * 70_000 + b"end"))
            assert len(await read_until(client, b"end")) > 70_000

    asyncio.run(known())


def test_no_connect_in_time(tmp_path: Path) -> None:
    config = """
    [broker.limits]
    connect_timeout = 0.5
    [broker.listeners.web]
    type = "ws"
    bind = "127.0.0.1:0"
    """
    arguments = ("--memberships", "none", "--allow-anonymous")

    async def scenario(broker: RunningBroker) -> None:
        async with asyncio.timeout(PATIENCE):
            # Half a second may pass before the handshake is done: that is a closing too.
            with pytest.raises((ConnectionClosed, InvalidHandshake, OSError)):
                async with WebClient(broker).connecting as client:
                    await client.recv()

    with running_broker(tmp_path, *arguments, config=config) as broker:
        asyncio.run(scenario(broker))


def test_a_websocket_that_stops_reading(broker: RunningBroker) -> None:
    slow_before = broker.metric('spaps_drops_total{cause="slow_consumer"}')

    async def scenario() -> None:
        async with WebClient(broker, max_queue=1).connecting as slow:
            await slow.send(connect_packet("slow-web") + subscribe_packet("flood"))
            while SUBACK not in bytes(await slow.recv()):  # type: ignore[arg-type]
                pass
            port = broker.port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(connect_packet("sender"))
            await reader.read(100)
            for _ in range(200):
                writer.write(publish_packet("flood", b"x" * 1_000) * 100)
                await writer.drain()
            writer.write(b"\xc0\x00")
            await reader.read(1)
            writer.close()

    asyncio.run(scenario())
    assert broker.metric('spaps_drops_total{cause="slow_consumer"}') > slow_before


@pytest.mark.parametrize(
    ("origin", "is_let_in"),
    [
        (None, True),
        ("http://127.0.0.1:3000", True),
        ("https://allowed.example", True),
        ("https://evil.example", False),
        ("null", False),
    ],
)
def test_a_web_page_of_another_origin_cannot_connect(
    origin: str | None, is_let_in: bool, broker: RunningBroker
) -> None:
    counted = 'spaps_connections_refused_total{cause="origin"}'
    before = broker.metric(counted)

    async def answer() -> int | None:
        uri = f"ws://127.0.0.1:{broker.ports['web']}/mqtt"
        protocols = [websockets.Subprotocol("mqtt")]
        given = None if origin is None else websockets.Origin(origin)
        try:
            async with websockets.connect(uri, subprotocols=protocols, origin=given):
                return None
        except InvalidStatus as error:
            return error.response.status_code

    assert asyncio.run(answer()) == (None if is_let_in else 403)
    assert broker.metric(counted) == before + (not is_let_in)
