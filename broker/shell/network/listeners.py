"""The listeners of the broker: reads their settings, opens them, and checks who may connect.

The broker refuses to be open to other machines by accident.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import websockets
from amqtt.contexts import BrokerConfig
from dacite import DaciteError
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection

from broker.access.addresses import Address, cannot_listen, parse_address
from broker.shell.network.web_origins import WebOrigins
from schemas.errors import Mistakes, SettingsError
from schemas.settings import BrokerSettings

# The name of the listener of ``broker.listen``.
DEFAULT: Final = "default"
PORT: Final = 1883
# Keys of amqtt that are not supported here: if ignored, they would be limits that do not hold.
UNUSED_KEYS: Final = ("max_connections", "reader", "writer")
# Of WebSocket; the second is that of MQTT 3.1.
SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")
KEYS: Final = ("type", "bind", "ssl", "certfile", "keyfile", "cafile", "capath", "cadata")
PORTS: Final = {("tcp", False): PORT, ("tcp", True): 8883, ("ws", False): 8083, ("ws", True): 8084}


def listener_addresses(settings: BrokerSettings) -> dict[str, Address]:
    """Return the address of each listener, by its name."""
    addresses = {}
    mistakes = Mistakes()
    if settings.listen:
        with mistakes.noted():
            addresses[DEFAULT] = parse_address(settings.listen, "broker.listen", PORT)
    for name, table in settings.listeners.items():
        with mistakes.noted():
            addresses[name] = _listener_address(name, table)
    mistakes.check()
    if not addresses:
        raise SettingsError("broker.listen is empty and there are no broker.listeners")
    return addresses


def _listener_address(name: str, table: Any) -> Address:
    """Return the address of a table in broker.listeners; SettingsError has all its mistakes."""
    key = f"broker.listeners.{name}"
    if not isinstance(table, Mapping) or name == DEFAULT:
        raise SettingsError(f"{key}: write [broker.listeners.NAME], NAME other than {DEFAULT}")
    mistakes = Mistakes()
    kind = str(table.get("type", "tcp"))
    if kind not in ("tcp", "ws"):
        mistakes.append(f"{key}.type must be tcp or ws, not {kind!r}")
    for word in sorted(table.keys() - KEYS):
        if word in UNUSED_KEYS:
            mistakes.append(f"{key}.{word} is not supported; see broker.limits")
        else:
            mistakes.append(f"unknown setting {key}.{word}; known: {', '.join(KEYS)}")
    if table.get("ssl") and not (table.get("certfile") and table.get("keyfile")):
        mistakes.append(f"{key}: ssl needs certfile and keyfile")
    default_port = PORTS.get((kind, bool(table.get("ssl"))), PORT)
    with mistakes.noted():
        address = parse_address(str(table.get("bind", "")), f"{key}.bind", default_port)
    mistakes.check()
    return address


def amqtt_config(settings: BrokerSettings) -> BrokerConfig:
    """Check listeners and plugins as amqtt does; return the configuration of its plugins."""
    mistakes = Mistakes()
    with mistakes.noted():
        for name, address in listener_addresses(settings).items():
            table = {**settings.listeners.get(name, {}), "bind": str(address)}
            with mistakes.noted():
                _checked({"listeners": {DEFAULT: {}, name: table}}, f"broker.listeners.{name}")
    mistakes += [
        f"broker.plugins: {plugin!r} is no plugin: write package.module.Class in quotes"
        for plugin in settings.plugins
        if "." not in plugin
    ]
    mistakes.check()
    return _checked({"plugins": dict(settings.plugins)}, "broker")


def check_openness(settings: BrokerSettings, *, allows_anonymous: bool) -> None:
    """Raise SettingsError when the broker would be public and open to anonymous clients."""
    if not allows_anonymous or settings.anonymous_from_anywhere:
        return
    for name, address in listener_addresses(settings).items():
        if address.is_public:
            raise SettingsError(
                f"listener {name} at {address} can be reached from other machines, and clients "
                "need no password: set broker.password_file instead of allowing anonymous "
                "clients, or set broker.anonymous_from_anywhere if that is what you want"
            )


def _checked(content: dict[str, Any], key: str) -> BrokerConfig:
    try:
        return BrokerConfig.from_dict(content)
    except (DaciteError, ValueError, OSError) as error:
        raise SettingsError(f"{key}: {' '.join(str(error).split())}") from error


@dataclass(frozen=True, slots=True)
class ConnectionHandlers:
    """What handles new connections; ``tls_context`` returns the context of a listener."""

    make_tcp_protocol: Callable[[], asyncio.Protocol]
    serve_websocket: Callable[[ServerConnection], Awaitable[None]]
    tls_context: Callable[[str], ssl.SSLContext]
    origins: WebOrigins
    # Seconds to complete a connection, and the largest WebSocket message before CONNECT.
    connect_timeout: float
    packet_bytes: int


class Listeners:
    """All listeners of the settings; clients can connect after ``open``."""

    def __init__(self, settings: BrokerSettings, handlers: ConnectionHandlers) -> None:
        self._settings = settings
        self._handlers = handlers
        self._servers: list[asyncio.Server | WebSocketServer] = []

    async def open(self) -> list[tuple[str, Address]]:
        """Return each listener's name and the address that it is bound to."""
        bound = []
        try:
            for name, address in listener_addresses(self._settings).items():
                try:
                    server = await self._open(name, address)
                except OSError as error:
                    raise cannot_listen(f"listener {name}", address, error) from error
                self._servers.append(server)
                names = [one.getsockname() for one in server.sockets]
                bound += [(name, Address(one[0], one[1])) for one in names]
        except SettingsError:
            await self.close()
            raise
        return bound

    def stop_listening(self) -> None:
        """Accept no more connections; existing ones stay open."""
        for server in self._servers:
            if isinstance(server, WebSocketServer):
                server.close(close_connections=False)
            else:
                server.close()

    async def close(self) -> None:
        """Close the listeners, and wait until their connections are closed."""
        for server in self._servers:
            server.close()
            await server.wait_closed()

    async def _open(self, name: str, address: Address) -> asyncio.Server | WebSocketServer:
        handlers, table = self._handlers, self._settings.listeners.get(name, {})
        secure: dict[str, Any] = {}
        if table.get("ssl"):
            timeout = handlers.connect_timeout
            secure = {"ssl": handlers.tls_context(name), "ssl_handshake_timeout": timeout}
        if table.get("type") != "ws":
            return await asyncio.get_running_loop().create_server(
                handlers.make_tcp_protocol, address.host, address.port,
                reuse_address=True, backlog=1_024, **secure,
            )  # fmt: skip
        return await websockets.serve(
            handlers.serve_websocket,
            address.host,
            address.port,
            process_request=handlers.origins.check(is_public=address.is_public),
            subprotocols=[websockets.Subprotocol(one) for one in SUBPROTOCOLS],
            max_size=handlers.packet_bytes,
            open_timeout=handlers.connect_timeout,
            # Compression costs 300 KB per client, and MQTT has its own keep alive.
            compression=None,
            ping_interval=None,
            server_header=None,
            **secure,
        )
