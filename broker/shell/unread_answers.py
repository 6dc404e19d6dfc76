"""Clients that send on without reading the answers: nothing more is taken from them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection

log = logging.getLogger(__name__)


class UnreadAnswers:
    """Bytes that were written to clients since they stopped reading.

    Messages for such a client are dropped or queued. What is still written are answers to its own
    packets, and they must have a limit too.
    """

    __slots__ = ("_held", "_sizes", "limit", "stops")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # How often reading from a client was stopped.
        self.stops = 0
        self._sizes: dict[Connection, int] = {}
        self._held: set[Connection] = set()

    def __len__(self) -> int:
        """Return the number of clients from which nothing is read at present."""
        return len(self._held)

    def note(self, connection: Connection, size: int) -> None:
        """Count what was written to a client that does not read, and stop reading from it."""
        total = self._sizes[connection] = self._sizes.get(connection, 0) + size
        if total > self.limit and connection not in self._held:
            self._held.add(connection)
            self.stops += 1
            connection.peer.pause_reading()
            log.info(
                "nothing more is read from a client that does not read its answers",
                extra=connection.log_fields,
            )

    def holds(self, connection: Connection) -> bool:
        """Return whether nothing is to be taken from the client at present."""
        return connection in self._held

    def read_again(self, connection: Connection) -> None:
        """Note that the client reads; take its packets again unless it waits for an answer."""
        is_held = self.holds(connection)
        self.forget(connection)
        if is_held and not connection.is_blocked:
            connection.peer.resume_reading()

    def forget(self, connection: Connection) -> None:
        """Note that the connection is gone, or reads."""
        self._sizes.pop(connection, None)
        self._held.discard(connection)
