"""Listeners of every kind, and the plugins of amqtt beside them, by public names alone."""

from __future__ import annotations

import ast
import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import websockets
from amqtt.broker import Broker
from websockets.asyncio.server import ServerConnection

from broker.access.amqtt_plugins import PluginHost
from broker.core.message import Message
from broker.shell.network.certificates import Certificates as TlsContexts
from broker.shell.network.listeners import (
    ConnectionHandlers,
    Listeners,
    amqtt_config,
)
from broker.shell.network.web_origins import WebOrigins
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

    def append_message(self, message: Message) -> None:
        self.messages.append((message.topic, message.payload, message.qos, message.retain))


PUBLISHED = Published()


def plugin_host(options: dict[str, Any]) -> PluginHost:
    settings = load_settings(options={"broker.listen": "127.0.0.1:0", **options}, environment={})
    return PluginHost(amqtt_config(settings.broker), PUBLISHED.append_message)


def listeners_of(options: dict[str, Any]) -> Listeners:
    settings = load_settings(options={"broker.listen": "127.0.0.1:0", **options}, environment={})
    contexts = TlsContexts(settings.broker.listeners, 14.0)
    handlers = ConnectionHandlers(
        Echo, echo, contexts.context_of, WebOrigins(()), connect_timeout=10.0, packet_bytes=1000
    )
    return Listeners(settings.broker, handlers)


def private_names(path: Path) -> list[str]:
    """The private attributes and imports of a module that it does not define itself."""
    tree = ast.parse(path.read_text("utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own |= {node.attr for node in used if isinstance(node.ctx, ast.Store)}
    names = {node.attr for node in used}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names |= {each.name for node in imports for each in node.names}
    private = {name for name in names if name.startswith("_") and not name.startswith("__")}
    return sorted(private - own)


def test_no_private_part_of_amqtt_is_used(repository: Path, tmp_path: Path) -> None:
    files = [*(repository / "broker" / "access").glob("*plugins.py")]
    files += (repository / "broker" / "shell").rglob("*.py")
    users = [one for one in files if "amqtt" in one.read_text("utf-8")]
    assert len(users) > 2
    assert [name for one in users for name in private_names(one)] == []
    # A method of ours that has the name of a private one of amqtt would override it.
    assert [name for name in vars(PluginHost) if name.startswith("_") and hasattr(Broker, name)
            and not name.startswith("__")] == []  # fmt: skip
    other = tmp_path / "other.py"
    other.write_text("from amqtt.broker import _state\nprint(broker._servers, _state)\n")
    assert private_names(other) == ["_servers", "_state"]


def test_every_kind_of_listener_leads_to_our_connection(certificates: Certificates) -> None:
    tls = {
        "ssl": True,
        "certfile": str(certificates.server),
        "keyfile": str(certificates.server_key),
    }
    options = {
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
        listeners = listeners_of(options)
        ports = {name: address.port for name, address in await listeners.open()}
        assert await over_tcp(ports["default"], None) == b"ours: hello"
        assert await over_tcp(ports["tls"], trust) == b"ours: hello"
        assert await over_websocket(ports["web"], None) == b"ours: hello"
        assert await over_websocket(ports["secure-web"], trust) == b"ours: hello"
        await listeners.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", ports["default"])

    asyncio.run(scenario())


def test_ipv6_can_be_listened_on() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 on this machine")

    async def scenario() -> None:
        listeners = listeners_of({"broker.listen": "[::1]:0"})
        ((_, address),) = await listeners.open()
        reader, writer = await asyncio.open_connection("::1", address.port)
        writer.write(b"hello")
        assert await reader.readexactly(11) == b"ours: hello"
        writer.close()
        await listeners.close()

    asyncio.run(scenario())


def test_clients_stay_when_the_broker_stops_listening() -> None:
    async def scenario() -> None:
        listeners = listeners_of({})
        ((_, address),) = await listeners.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        listeners.stop_listening()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", address.port)
        writer.write(b"hello")
        assert await reader.readexactly(11) == b"ours: hello"
        writer.close()
        await listeners.close()

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
        plugin_host(options)
        await listeners_of(options).open()

    with pytest.raises(SettingsError, match=complaint) as caught:
        asyncio.run(scenario())
    assert "\n" not in str(caught.value)


def test_a_port_that_is_taken_is_an_error_and_nothing_stays_open() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with socket.create_server(("127.0.0.1", 0)) as free:
                first = free.getsockname()[1]
            options = {
                "broker.listen": f"127.0.0.1:{first}",
                "broker.listeners.other": {"bind": f"127.0.0.1:{port}"},
            }
            with pytest.raises(SettingsError, match=r"(?i)address already in use"):
                await listeners_of(options).open()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", first)

    asyncio.run(scenario())


def test_what_plugins_say_is_said_by_our_core() -> None:
    async def scenario() -> None:
        context = plugin_host({}).plugins_manager.context
        await context.broadcast_message("a", b"1", 1)
        await context.retain_message("b", bytearray(b"2"))

    PUBLISHED.messages.clear()
    asyncio.run(scenario())
    assert PUBLISHED.messages == [("a", b"1", 1, False), ("b", b"2", 0, True)]
