"""Clients that send on without reading the answers: nothing more is taken from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.connection import Connection


class UnreadAnswers:
    """Bytes that were written to clients since they stopped reading.

    Messages for such a client are dropped or queued. What is still written are answers to its own
    packets, and they must have a limit too.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Connection, int] = {}

    def note(self, connection: Connection, size: int) -> None:
        """Count what was written to a client that does not read, and stop reading from it."""
        total = self._sizes[connection] = self._sizes.get(connection, 0) + size
        if total > self._limit:
            connection.peer.pause_reading()

    def holds(self, connection: Connection) -> bool:
        """Return whether nothing is to be taken from the client at present."""
        return self._sizes.get(connection, 0) > self._limit

    def read_again(self, connection: Connection) -> None:
        """Note that the client reads; take its packets again unless it waits for an answer."""
        is_held = self.holds(connection)
        self.forget(connection)
        if is_held and not connection.is_blocked:
            connection.peer.resume_reading()

    def forget(self, connection: Connection) -> None:
        """Note that the connection is gone, or reads."""
        self._sizes.pop(connection, None)
