"""A connection over TCP or TLS: an asyncio protocol, because streams would copy and wake twice."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from broker.access.addresses import Origin

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
    from broker.shell.core_driver import CoreDriver

# How long a client may take to read our last words.
FAREWELL_SECONDS: Final = 5.0
# A socket whose other side was closed; where the system cannot tell, only one that failed.
LEFT: Final = getattr(select, "POLLRDHUP", 0)


class TcpLink(asyncio.Protocol):
    """Between a transport and the driver of the core."""

    __slots__ = ("_connection", "_core_driver", "_is_leaving", "_transport", "write")

    def __init__(self, core_driver: CoreDriver) -> None:
        self._core_driver = core_driver
        # Sends bytes: the transport's own method while there is somebody to send to, because each
        # write of the broker goes through it.
        self.write: Callable[[bytes], None] = _send_to_nobody
        self._transport: asyncio.Transport
        self._connection: Connection | None = None
        self._is_leaving = False

    # --- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new client; one too many is closed at once."""
        self._transport = cast("asyncio.Transport", transport)
        self._connection = self._core_driver.opened(self)
        if self._connection is None:
            self._transport.abort()
            return
        self.set_write_mark(self._core_driver.output.mark)
        self.write = self._transport.write

    def data_received(self, data: bytes) -> None:
        """Hand bytes of the client on."""
        if self._connection is not None:
            self._core_driver.collect(self._connection, data)

    def pause_writing(self) -> None:
        """Note that the client does not read what was written."""
        if self._connection is not None:
            self._core_driver.paused(self._connection)

    def resume_writing(self) -> None:
        """It reads again."""
        if self._connection is not None:
            self._core_driver.resumed(self._connection)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """Note that the client is gone."""
        self.write = _send_to_nobody
        connection, self._connection = self._connection, None
        if connection is not None:
            self._core_driver.lost(connection)

    # --- called by the driver and the core

    @property
    def origin(self) -> Origin:
        """Where the client comes from."""
        peer = self._transport.get_extra_info("peername") or (None, None)
        return Origin(peer[0], peer[1], self._transport.get_extra_info("ssl_object"))

    @property
    def is_gone(self) -> bool:
        """Whether the client has left, although nothing is read from it at present."""
        socket = self._transport.get_extra_info("socket")
        if self._connection is None or socket is None or socket.fileno() < 0:
            return True
        asked = select.poll()
        asked.register(socket.fileno(), LEFT)
        return bool(asked.poll(0))

    @property
    def unread_bytes(self) -> int:
        """What was written and the client's socket has not taken."""
        return self._transport.get_write_buffer_size()

    def set_write_mark(self, size: int) -> None:
        """Set how much may be unread before the client counts as one that does not read."""
        self._transport.set_write_buffer_limits(size)

    def pause_reading(self) -> None:
        """Leave what the client sends in its socket."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take it up again."""
        self._transport.resume_reading()

    def close(self) -> None:
        """Close after what was written; a client that does not read it is cut off in the end.

        A socket that is closed while the client still sends is reset, and the client may never
        read why it was sent away. So only our direction is closed, and what comes is thrown
        away until the client closes too.
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
        """Close at once and forget what was written."""
        self._is_leaving = True
        self.write = _send_to_nobody
        self._transport.abort()


def _send_to_nobody(data: bytes) -> None:
    """Stand in for a transport whose client is gone or was sent away."""
