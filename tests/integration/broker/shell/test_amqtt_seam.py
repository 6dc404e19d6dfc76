"""The seam to amqtt: where our connections take the place of its own. Fails when amqtt changes."""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
from importlib.metadata import version
from typing import Any

import amqtt.broker
import pytest
import websockets
from amqtt.broker import Broker
from websockets.asyncio.server import ServerConnection

from broker.shell.network.amqtt_broker import AmqttBroker, ConnectionHandlers
from broker.shell.network.listeners import amqtt_config
from schemas.errors import SettingsError
from schemas.settings import load_settings
from tests.servers.certificates import Certificates


class Echo(asyncio.Protocol):
    """Says what it hears, so that a client knows who answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"ours: " + data)


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(b"ours: " + bytes(message))


class Published:
    """What plugins wanted to say."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes, int, bool]] = []

    def append_message(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> None:
        self.messages.append((topic, payload, qos, retain))


PUBLISHED = Published()
HANDLERS = ConnectionHandlers(Echo, echo, 10.0, packet_bytes=1000)


def broker_with(options: dict[str, Any]) -> AmqttBroker:
    settings = load_settings(options={"broker.listen": "127.0.0.1:0", **options}, environment={})
    return AmqttBroker(amqtt_config(settings.broker), PUBLISHED.append_message)


def test_the_version_is_the_one_that_the_seam_was_made_for() -> None:
    assert version("amqtt") == "0.12.1"


def test_the_method_that_we_override_is_as_it_was() -> None:
    theirs = inspect.signature(Broker._create_server_instance)
    ours = inspect.signature(AmqttBroker._create_server_instance)
    assert list(theirs.parameters) == list(ours.parameters)
    assert inspect.iscoroutinefunction(Broker._create_server_instance)
    assert "_create_server_instance(" in inspect.getsource(Broker._start_listeners)


def test_every_kind_of_listener_leads_to_our_connection(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object, **__: object) -> None:
        raise AssertionError("amqtt took the connection")

    monkeypatch.setattr(Broker, "_client_connected", never)
    tls = {
        "ssl": True,
        "certfile": str(certificates.server),
        "keyfile": str(certificates.server_key),
    }
    listeners = {
        "broker.listeners.tls": {"type": "tcp", "bind": "127.0.0.1:0", **tls},
        "broker.listeners.web": {"type": "ws", "bind": "127.0.0.1:0"},
        "broker.listeners.secure-web": {"type": "ws", "bind": "127.0.0.1:0", **tls},
    }
    trust = ssl.create_default_context(cafile=certificates.authority)

    async def over_tcp(port: int, secure: ssl.SSLContext | None) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=secure)
        writer.write(b"hello")
        answer = await reader.readexactly(11)
        writer.close()
        return answer

    async def over_websocket(port: int, secure: ssl.SSLContext | None) -> bytes:
        scheme = "wss" if secure else "ws"
        protocols = [websockets.Subprotocol("mqtt")]
        uri = f"{scheme}://127.0.0.1:{port}"
        async with websockets.connect(uri, ssl=secure, subprotocols=protocols) as client:
            assert client.subprotocol == "mqtt"
            await client.send(b"hello")
            return bytes(await client.recv())

    async def scenario() -> None:
        broker = broker_with(listeners)
        ports = {name: address.port for name, address in await broker.open_listeners(HANDLERS)}
        assert await over_tcp(ports["default"], None) == b"ours: hello"
        assert await over_tcp(ports["tls"], trust) == b"ours: hello"
        assert await over_websocket(ports["web"], None) == b"ours: hello"
        assert await over_websocket(ports["secure-web"], trust) == b"ours: hello"
        await broker.shutdown()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", ports["default"])

    asyncio.run(scenario())


def test_ipv6_can_be_listened_on() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 on this machine")

    async def scenario() -> None:
        broker = broker_with({"broker.listen": "[::1]:0"})
        ((_, address),) = await broker.open_listeners(HANDLERS)
        reader, writer = await asyncio.open_connection("::1", address.port)
        writer.write(b"hello")
        assert await reader.readexactly(11) == b"ours: hello"
        writer.close()
        await broker.shutdown()

    asyncio.run(scenario())


def test_clients_stay_when_the_broker_stops_listening() -> None:
    async def scenario() -> None:
        broker = broker_with({})
        ((_, address),) = await broker.open_listeners(HANDLERS)
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        await broker.stop_listening()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", address.port)
        writer.write(b"hello")
        assert await reader.readexactly(11) == b"ours: hello"
        writer.close()
        await broker.shutdown()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"broker.plugins": {"no.such.Plugin": {}}}, r"broker\.plugins: .*no"),
        ({"broker.plugins": {"pathlib.Path": {}}}, r"broker\.plugins: .*not a subclass"),
        ({"broker.listen": ""}, "broker.listen is empty"),
        ({"broker.listen": "nowhere.invalid:0"}, "(?i)name|service|address"),
        ({"broker.listeners": {"x": 1}}, r"broker\.listeners\.x: write"),
        ({"broker.listeners": {"x": {"type": "udp", "bind": "1"}}}, r"x\.type must be tcp or ws"),
        ({"broker.listeners": {"x": {"bind": "1", "color": 2}}}, r"broker\.listeners\.x\.color"),
        ({"broker.listeners": {"x": {}}}, r"broker\.listeners\.x\.bind must be HOST:PORT"),
        ({"broker.listeners": {"x": {"bind": "1", "ssl": True}}}, "ssl needs certfile and keyfile"),
        (
            {"broker.listeners": {"x": {"bind": "1", "certfile": "/no", "keyfile": "/no"}}},
            r"broker\.listeners\.x: .*does not exist",
        ),
    ],
)
def test_mistakes_in_the_settings_are_one_line(options: dict[str, Any], complaint: str) -> None:
    async def scenario() -> None:
        await broker_with(options).open_listeners(HANDLERS)

    with pytest.raises(SettingsError, match=complaint) as caught:
        asyncio.run(scenario())
    assert "\n" not in str(caught.value)


def test_a_port_that_is_taken_is_an_error_and_nothing_stays_open() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            listeners = {"broker.listeners.other": {"bind": f"127.0.0.1:{port}"}}
            broker = broker_with(listeners)
            with pytest.raises(SettingsError, match=r"(?i)address already in use"):
                await broker.open_listeners(HANDLERS)
            default = broker._servers["default"].instance
            assert not default.is_serving()

    asyncio.run(scenario())


def test_what_plugins_say_is_said_by_our_core() -> None:
    async def scenario() -> None:
        context = broker_with({}).plugins_manager.context
        await context.broadcast_message("a", b"1", 1)
        await context.retain_message("b", bytearray(b"2"))

    PUBLISHED.messages.clear()
    asyncio.run(scenario())
    assert PUBLISHED.messages == [("a", b"1", 1, False), ("b", b"2", 0, True)]


def test_the_parts_of_amqtt_that_we_lean_on_are_there() -> None:
    for name in ("start", "shutdown", "_create_ssl_context", "_split_bindaddr_port"):
        assert hasattr(amqtt.broker.Broker, name), name
