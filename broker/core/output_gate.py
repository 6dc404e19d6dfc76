"""Bytes on their way out: at once, or once what they promise is stored."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.journal import Journal
from broker.core.requests import Outbox
from broker.core.sessions.connection import Connection, Promised, State


class OutputGate:
    """The one place that appends to ``Connection.out``, but for the hot path."""

    __slots__ = ("_journal", "_outbox", "_waiting")

    def __init__(self, outbox: Outbox, journal: Journal) -> None:
        self._outbox = outbox
        self._journal = journal
        # Connections with promises, in a dictionary for its order.
        self._waiting: dict[Connection, None] = {}

    def send(self, connection: Connection, data: bytes) -> None:
        """Write now."""
        if not connection.out:
            self._outbox.writes.append(connection)
        connection.out.append(data)

    def send_best(self, connection: Connection, data: bytes, plain: bytes) -> None:
        """Write ``data``, or ``plain`` when the first is more than the client takes."""
        limit = connection.maximum_packet_size
        self.send(connection, data if limit is None or len(data) <= limit else plain)

    def promise(
        self,
        connection: Connection,
        data: bytes,
        position: int,
        then: Callable[[], None] | None = None,
        is_off: Callable[[], bool] | None = None,
    ) -> None:
        """Write once the journal is stored up to ``position``; promises keep their order.

        If it must wait, ``is_off`` is asked then whether it is not to be written after all.
        """
        if position <= self._journal.committed and not connection.promised:
            self.send(connection, data)
            if then is not None:
                then()
            return
        connection.promised.append(Promised(position, data, then, is_off))
        self._waiting[connection] = None

    def committed(self) -> None:
        """Write what may be written now."""
        stored = self._journal.committed
        for connection in list(self._waiting):
            promised = connection.promised
            while promised and promised[0].position <= stored:
                one = promised.popleft()
                if connection.state is State.CLOSED or (one.is_off is not None and one.is_off()):
                    continue
                self.send(connection, one.data)
                if one.then is not None:
                    one.then()
            if not promised:
                self._waiting.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        """The connection is closed: nothing of what was promised goes out."""
        connection.promised.clear()
        self._waiting.pop(connection, None)
