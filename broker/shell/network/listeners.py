"""The listeners of the broker: reads their settings, opens them, and checks who may connect.

The broker refuses to be open to other machines by accident. A web page may open a WebSocket when
it is of the same host, or of an origin that the settings allow.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import websockets
from amqtt.contexts import BrokerConfig
from dacite import DaciteError
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from broker.access.addresses import Address, Origin, parse_address
from broker.access.amqtt_plugins import innermost_text
from broker.shell.http_server import is_local_name
from schemas.errors import SettingsError
from schemas.settings import BrokerSettings

log = logging.getLogger(__name__)

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
    if settings.listen:
        addresses[DEFAULT] = parse_address(settings.listen, "broker.listen", PORT)
    for name, table in settings.listeners.items():
        key = f"broker.listeners.{name}"
        if not isinstance(table, Mapping) or name == DEFAULT:
            raise SettingsError(f"{key}: write [broker.listeners.NAME], NAME other than {DEFAULT}")
        kind = str(table.get("type", "tcp"))
        if kind not in ("tcp", "ws"):
            raise SettingsError(f"{key}.type must be tcp or ws, not {kind!r}")
        for word in table.keys() - KEYS:
            if word not in UNUSED_KEYS:
                raise SettingsError(f"unknown setting {key}.{word}; known: {', '.join(KEYS)}")
        for unused in UNUSED_KEYS:
            if unused in table:
                raise SettingsError(f"{key}.{unused} is not supported; see broker.limits")
        default_port = PORTS[kind, bool(table.get("ssl"))]
        addresses[name] = parse_address(str(table.get("bind", "")), f"{key}.bind", default_port)
    if not addresses:
        raise SettingsError("broker.listen is empty and there are no broker.listeners")
    return addresses


def amqtt_config(settings: BrokerSettings) -> BrokerConfig:
    """Check listeners and plugins as amqtt does; return the configuration of its plugins."""
    addresses = listener_addresses(settings)
    for name, table in settings.listeners.items():
        key = f"broker.listeners.{name}"
        if table.get("ssl") and not (table.get("certfile") and table.get("keyfile")):
            raise SettingsError(f"{key}: ssl needs certfile and keyfile")
        _checked({"listeners": {DEFAULT: {}, name: {**table, "bind": str(addresses[name])}}}, key)
    for plugin in settings.plugins:
        if "." not in plugin:
            raise SettingsError(
                f"broker.plugins: {plugin!r} is no plugin: write package.module.Class in quotes"
            )
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
                server = await self._open(name, address)
                self._servers.append(server)
                names = [one.getsockname() for one in server.sockets]
                bound += [(name, Address(one[0], one[1])) for one in names]
        except OSError as error:
            await self.close()
            raise SettingsError(innermost_text(error)) from error
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


OriginCheck: TypeAlias = Callable[[ServerConnection, Request], Response | None]


class WebOrigins:
    """Web origins: pages of the same host may connect, and those in ``allowed`` (``*``: all)."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = frozenset(_origin(one) for one in allowed)
        self.refused = 0

    def check(self, *, is_public: bool) -> OriginCheck:
        """Return the check of a listener; ``is_public``: other machines can reach it."""

        def check(connection: ServerConnection, request: Request) -> Response | None:
            origins = request.headers.get_all("Origin")
            host = ", ".join(request.headers.get_all("Host"))
            if all(self.allows(one, host, is_public=is_public) for one in origins):
                return None
            self.refused += 1
            peer = connection.remote_address or (None, None)
            extra = {"origin": ", ".join(origins), "from": str(Origin(peer[0], peer[1]))}
            log.info("WebSocket refused: a page of another origin", extra=extra)
            return connection.respond(
                HTTPStatus.FORBIDDEN, "this origin is not in broker.websocket_origins\n"
            )

        return check

    def allows(self, origin: str, host: str, *, is_public: bool) -> bool:
        """Return whether a page of the origin may connect to the host in its request.

        On this machine the host must be an address or localhost: the owner of any other name could
        have made it resolve to this machine.
        """
        if "*" in self._allowed or origin.rstrip("/").lower() in self._allowed:
            return True
        if not is_public and not is_local_name(host):
            return False
        try:
            page, asked = urlsplit(origin).hostname, urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return page is not None and page == asked


def _origin(text: str) -> str:
    """Return an origin of the settings as browsers write it; an error if it is not valid."""
    origin = text.rstrip("/").lower()
    try:
        parts = urlsplit(origin)
        is_origin = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:
        is_origin = False
    else:
        is_origin = is_origin and origin == f"{parts.scheme}://{parts.netloc}"
    if origin in ("*", "null") or (is_origin and "@" not in origin):
        return origin
    raise SettingsError(
        f"broker.websocket_origins: {text!r} is no origin: write it as https://map.example or "
        "http://localhost:3000, or * for all"
    )
