"""A connection over TCP or TLS, as an asyncio protocol: streams would copy and wake up twice."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from broker.access.addresses import Origin

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
    from broker.shell.core_driver import CoreDriver

# Seconds that a client has to read the last packet.
FAREWELL_SECONDS: Final = 5.0
# Detects a socket whose peer has closed; on other systems only one that failed.
LEFT: Final = getattr(select, "POLLRDHUP", 0)


class TcpLink(asyncio.Protocol):
    """Connects a transport to the driver of the core."""

    __slots__ = ("_connection", "_core_driver", "_is_leaving", "_transport", "write")

    def __init__(self, core_driver: CoreDriver) -> None:
        self._core_driver = core_driver
        # Sends bytes: the transport's own method while the client is connected, because every write
        # of the broker goes through it.
        self.write: Callable[[bytes], None] = _send_to_nobody
        self._transport: asyncio.Transport
        self._connection: Connection | None = None
        self._is_leaving = False

    # --- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a new client, or close it at once when there are too many."""
        self._transport = cast("asyncio.Transport", transport)
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
        connection, self._connection = self._connection, None
        if connection is not None:
            self._core_driver.lost(connection)

    # --- called by the driver and the core

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

        A socket that is closed while the client still sends is reset, and the client may never
        read the reason. So only our direction is closed, and received bytes are discarded until
        the client closes too.
        """
        if self._is_leaving or self._transport.is_closing():
            return
        self._is_leaving = True
        self.write = _send_to_nobody
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:  # TLS, which has a farewell of its own
            self._transport.close()
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._transport.abort)

    def abort(self) -> None:
        """Close at once and discard unsent bytes."""
        self._is_leaving = True
        self.write = _send_to_nobody
        self._transport.abort()


def _send_to_nobody(data: bytes) -> None:
    """Discard bytes for a client that is gone or was disconnected."""
