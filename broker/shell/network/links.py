"""Connections of clients over TCP, TLS and WebSocket.

TCP has an asyncio protocol, because a stream would copy each chunk and wake up a task for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from broker.access.addresses import Origin

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
    from broker.shell.core_driver import CoreDriver

# Seconds that a client has to read the last packet.
CLOSE_SECONDS: Final = 5.0
# Detects a socket whose peer has closed; on other systems only one that failed.
LEFT: Final = getattr(select, "POLLRDHUP", 0)
# WebSocket's close code for unsupported data: MQTT allows only binary messages.
UNSUPPORTED_DATA: Final = 1003
TRY_AGAIN_LATER: Final = 1013
# Packets may be split anywhere; libraries refuse messages beyond a limit of their own.
MESSAGE_BYTES: Final = 65_536


class TcpLink(asyncio.Protocol):
    """Connects a transport to the driver of the core."""

    __slots__ = ("_connection", "_core_driver", "_is_leaving", "_transport", "write")

    def __init__(self, core_driver: CoreDriver) -> None:
        self._core_driver = core_driver
        # The transport's own method while the client is connected: every write goes through it.
        self.write: Callable[[bytes], None] = _send_to_nobody
        self._connection: Connection | None = None
        self._is_leaving = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a new client, or close it at once when there are too many."""
        self._transport: asyncio.Transport = cast("asyncio.Transport", transport)
        self._connection = self._core_driver.opened(self)
        if self._connection is None:
            self._transport.abort()
            return
        self.set_write_mark(self._core_driver.output.mark)
        self.write = self._transport.write

    def data_received(self, data: bytes) -> None:
        """Pass bytes of the client to the driver."""
        if self._connection is not None:
            self._core_driver.collect(self._connection, data)

    def pause_writing(self) -> None:
        """Report that the client does not read what was written."""
        if self._connection is not None:
            self._core_driver.paused(self._connection)

    def resume_writing(self) -> None:
        """Report that the client reads again."""
        if self._connection is not None:
            self._core_driver.resumed(self._connection)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """Report that the connection is closed."""
        self.write = _send_to_nobody
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._core_driver.lost(connection)

    @property
    def origin(self) -> Origin:
        """The address and certificate of the client."""
        peer = self._transport.get_extra_info("peername") or (None, None)
        return Origin(peer[0], peer[1], self._transport.get_extra_info("ssl_object"))

    @property
    def is_gone(self) -> bool:
        """Whether the client has closed, detected also while reading is paused."""
        socket = self._transport.get_extra_info("socket")
        if self._connection is None or socket is None or socket.fileno() < 0:
            return True
        asked = select.poll()
        asked.register(socket.fileno(), LEFT)
        return bool(asked.poll(0))

    @property
    def unread_bytes(self) -> int:
        """Bytes that were written and the client's socket has not taken."""
        return self._transport.get_write_buffer_size()

    def set_write_mark(self, size: int) -> None:
        """Set the number of unread bytes from which the client counts as not reading."""
        self._transport.set_write_buffer_limits(size)

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        self._transport.resume_reading()

    def close(self) -> None:
        """Close after the written bytes were sent; abort when the client does not read them.

        A socket that is closed while the client sends is reset, and the client may never read the
        reason. So only our direction is closed, and received bytes are discarded.
        """
        if self._is_leaving or self._transport.is_closing():
            return
        self._is_leaving, self.write = True, _send_to_nobody
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:  # TLS has a closing message of its own
            self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._transport.abort)

    def abort(self) -> None:
        """Close at once and discard unsent bytes."""
        self._is_leaving, self.write = True, _send_to_nobody
        self._transport.abort()


def _send_to_nobody(data: bytes) -> None:
    """Discard bytes for a client that is gone or was disconnected."""


class WebSocketLink:
    """Connects a WebSocket, with packets in binary messages, until ``run`` returns."""

    def __init__(self, core_driver: CoreDriver, socket: ServerConnection) -> None:
        self._core_driver = core_driver
        self._socket = socket
        self._connection: Connection | None = None
        self._outgoing: list[bytes] = []
        # Bytes that were written and the client has not taken.
        self.unread_bytes = 0
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
        self.unread_bytes += len(data)
        self._has_outgoing.set()
        if self._connection is not None:
            # A client that has logged in may send larger messages.
            self._socket.protocol.max_size = self._connection.packet_limit
        self._pause_beyond_mark()

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
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._socket.transport.abort)

    def abort(self) -> None:
        """Close at once and discard unsent bytes."""
        self._is_closing = True
        self._outgoing.clear()
        self._has_outgoing.set()
        self._socket.transport.abort()

    def _pause_beyond_mark(self) -> None:
        if not self._is_paused and self.unread_bytes > self._mark:
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
                self.unread_bytes -= len(data)
                if self._is_paused and not self._outgoing:
                    self._is_paused = False
                    self._core_driver.resumed(connection)
            await self._socket.close()
