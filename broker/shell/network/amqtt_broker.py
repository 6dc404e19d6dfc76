"""amqtt's broker with our connections: its configuration, listeners and plugins, our MQTT 5.

amqtt opens the listeners, loads the plugins, and controls start and stop. It never sees the data
of a connection. The overridden methods are private to amqtt, so its version is pinned and a test
fails when they change (tests/integration/broker/shell/test_amqtt_seam.py).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import websockets
from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig, ListenerType
from amqtt.errors import BrokerError, PluginError, PluginLoadError
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection

from broker.access.addresses import Address
from broker.shell.network.listeners import WebOrigins
from schemas.errors import SettingsError

log = logging.getLogger(__name__)


class Publish(Protocol):
    """Publishes a message of the broker itself."""

    def __call__(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> None:
        """Deliver the message to its subscribers."""


@dataclass(frozen=True, slots=True)
class ConnectionHandlers:
    """Handlers that receive the connections from amqtt."""

    make_tcp_protocol: Callable[[], asyncio.Protocol]
    serve_websocket: Callable[[ServerConnection], Awaitable[None]]
    # Time to complete a connection, and the largest message.
    connect_timeout: float
    packet_bytes: int
    # The TLS context of a listener by its name; None: the context that amqtt made.
    tls_context: Callable[[str], ssl.SSLContext] | None = None
    # The check of which web pages may open a WebSocket; None: all may.
    origins: WebOrigins | None = None


class AmqttBroker(Broker):
    """Listeners and plugins; clients can connect after ``open_listeners``."""

    _handlers: ConnectionHandlers

    def __init__(self, config: BrokerConfig, publish: Publish) -> None:
        """``publish`` passes messages of plugins to our core."""
        self._publish = publish
        try:
            super().__init__(config, plugin_namespace="amqtt.plugins")
        except (PluginError, PluginLoadError) as error:
            raise SettingsError(f"broker.plugins: {_in_words(error)}") from error

    async def open_listeners(self, handlers: ConnectionHandlers) -> list[tuple[str, Address]]:
        """Start; return each listener's name and the address that it is bound to."""
        self._handlers = handlers
        try:
            await self.start()
        except BrokerError as error:
            await self._close_listeners()
            raise SettingsError(_in_words(error)) from error
        bound = []
        for name, server in self._servers.items():
            for socket in server.instance.sockets:
                host, port = socket.getsockname()[:2]
                bound.append((name, Address(host, port)))
        return bound

    async def stop_listening(self) -> None:
        """Accept no more connections; existing ones stay open."""
        for server in self._servers.values():
            instance = server.instance
            if isinstance(instance, WebSocketServer):
                instance.close(close_connections=False)
            else:
                instance.close()

    async def internal_message_broadcast(
        self, topic: str, data: bytes, qos: int | None = None
    ) -> None:
        """Override amqtt's method: messages that plugins broadcast go to our core."""
        self._publish(topic, bytes(data), qos or 0, retain=False)

    async def retain_message(
        self,
        source_session: object,  # noqa: ARG002 - amqtt's shape
        topic_name: str | None,
        data: bytes | bytearray | None,
        qos: int | None = None,
    ) -> None:
        """Override amqtt's method: our core publishes and retains what plugins retain."""
        if topic_name:
            self._publish(topic_name, bytes(data or b""), qos or 0, retain=True)

    async def _create_server_instance(
        self,
        listener_name: str,
        listener_type: ListenerType,
        address: str | None,
        port: int,
        ssl_context: ssl.SSLContext | None,
    ) -> asyncio.Server | WebSocketServer:
        """Override amqtt's method: open the listener with our own connection handlers."""
        # amqtt leaves the brackets around an IPv6 address.
        host = None if address is None else address.strip("[]")
        secure: dict[str, Any] = {}
        if ssl_context is not None:
            if self._handlers.tls_context is not None:
                ssl_context = self._handlers.tls_context(listener_name)
            secure = {
                "ssl": ssl_context,
                "ssl_handshake_timeout": self._handlers.connect_timeout,
            }
        if listener_type == ListenerType.WS:
            origins = self._handlers.origins
            is_public = host is None or Address(host, port).is_public
            return await websockets.serve(
                self._handlers.serve_websocket,
                host,
                port,
                process_request=None if origins is None else origins.check(is_public=is_public),
                subprotocols=[websockets.Subprotocol("mqtt")],
                max_size=self._handlers.packet_bytes,
                open_timeout=self._handlers.connect_timeout,
                # Compression costs 300 KB per client, and MQTT has its own keep alive.
                compression=None,
                ping_interval=None,
                server_header=None,
                **secure,
            )
        if listener_type == ListenerType.TCP:
            loop = asyncio.get_running_loop()
            make = self._handlers.make_tcp_protocol
            return await loop.create_server(
                make, host, port, reuse_address=True, backlog=1_024, **secure
            )
        raise SettingsError(f"listener {listener_name}: type must be tcp or ws")

    async def _close_listeners(self) -> None:
        for server in self._servers.values():
            await server.close_instance()


def _in_words(error: BaseException) -> str:
    """Return the innermost error text: amqtt wraps errors in messages of its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__
