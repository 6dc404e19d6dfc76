"""A connection over WebSocket: MQTT packets in binary messages."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from broker.access.addresses import Origin
from broker.shell.network.tcp_link import FAREWELL_SECONDS

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
    from broker.shell.core_driver import CoreDriver

# WebSocket's close code for unsupported data: MQTT allows only binary messages.
UNSUPPORTED_DATA: Final = 1003
TRY_AGAIN_LATER: Final = 1013
# Packets may be split anywhere; libraries refuse messages beyond a limit of their own.
MESSAGE_BYTES: Final = 65_536


class WebSocketLink:
    """Connects a WebSocket to the driver of the core, until ``run`` returns."""

    def __init__(self, core_driver: CoreDriver, socket: ServerConnection) -> None:
        self._core_driver = core_driver
        self._socket = socket
        self._connection: Connection | None = None
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._mark = core_driver.output.mark
        self._has_outgoing = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._is_paused = False
        self._is_closing = False

    async def run(self) -> None:
        """Serve the client until the connection is closed."""
        self._connection = self._core_driver.opened(self)
        if self._connection is None:
            await self._socket.close(TRY_AGAIN_LATER)
            return
        tasks = [
            asyncio.create_task(self._receive(self._connection), name="websocket reader"),
            asyncio.create_task(self._send(self._connection), name="websocket sender"),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connection, self._connection = self._connection, None
            self._core_driver.lost(connection)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def origin(self) -> Origin:
        """The address and certificate of the client."""
        peer = self._socket.remote_address or (None, None)
        return Origin(peer[0], peer[1], self._socket.transport.get_extra_info("ssl_object"))

    @property
    def is_gone(self) -> bool:
        """Whether the client has closed, detected also while reading is paused."""
        return self._socket.state is not State.OPEN

    def write(self, data: bytes) -> None:
        """Send bytes; beyond the limit the client counts as not reading."""
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)
        self._has_outgoing.set()
        if self._connection is not None:
            # A client that has logged in may send larger messages.
            self._socket.protocol.max_size = self._connection.packet_limit
        self._pause_beyond_mark()

    @property
    def unread_bytes(self) -> int:
        """Bytes that were written and the client has not taken."""
        return self._outgoing_bytes

    def set_write_mark(self, size: int) -> None:
        """Set the number of unread bytes from which the client counts as not reading."""
        self._mark = size
        self._pause_beyond_mark()

    def pause_reading(self) -> None:
        """Receive no more messages; the library then stops reading from the socket."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Receive messages again."""
        self._may_read.set()

    def close(self) -> None:
        """Close after the written bytes were sent; abort when the client does not read them."""
        self._is_closing = True
        self._has_outgoing.set()
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._socket.transport.abort)

    def abort(self) -> None:
        """Close at once and discard unsent bytes."""
        self._is_closing = True
        self._outgoing.clear()
        self._has_outgoing.set()
        self._socket.transport.abort()

    def _pause_beyond_mark(self) -> None:
        if not self._is_paused and self._outgoing_bytes > self._mark:
            self._is_paused = True
            if self._connection is not None:
                self._core_driver.paused(self._connection)

    async def _receive(self, connection: Connection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in self._socket:
                if isinstance(message, str):
                    await self._socket.close(UNSUPPORTED_DATA)
                    return
                self._core_driver.received(connection, message)
                await self._may_read.wait()

    async def _send(self, connection: Connection) -> None:
        """Send the bytes written since the last call, in messages that any client accepts."""
        with contextlib.suppress(ConnectionClosed):
            while not self._is_closing or self._outgoing:
                await self._has_outgoing.wait()
                self._has_outgoing.clear()
                data = b"".join(self._outgoing)
                self._outgoing.clear()
                for start in range(0, len(data), MESSAGE_BYTES):
                    await self._socket.send(data[start : start + MESSAGE_BYTES])
                self._outgoing_bytes -= len(data)
                if self._is_paused and not self._outgoing:
                    self._is_paused = False
                    self._core_driver.resumed(connection)
            await self._socket.close()
