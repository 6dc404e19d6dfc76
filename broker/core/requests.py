"""What leaves the core: requests to the shell, and bytes, at once or when their promise is stored.

The core never waits. A request goes into the outbox with a number. What depends on the answer
is held back, and the answer comes in later as a call with the same number. Every request must
be answered exactly once, also after the connection that caused it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from broker.core.journal import Journal
    from broker.core.sessions.connection import Connection
    from broker.core.verdicts import Action, Identity
    from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Answer: ``core.authenticated(request_id, reason)``; SUCCESS lets the client in."""

    request_id: int
    connection: Connection
    client_id: str
    user_name: str | None
    password: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Judge:
    """Answer: ``core.judged(request_id, verdict)``. Asked when ``AccessControl`` gave None."""

    request_id: int
    client: Identity
    topic: str
    action: Action


@dataclass(frozen=True, slots=True)
class Resolve:
    """Resolve a neighborhood and register it once for each filter, giving as many subIds.

    Answer: ``core.resolved(request_id, resolved)`` or ``core.refused(request_id, reason, text)``.
    ``nsids`` are chosen by the client or by the core, one for each filter. ``owner`` is the
    user name or address that the client's turns count for.
    """

    request_id: int
    client: Identity
    owner: str
    descriptor: str
    filters: tuple[str, ...]
    nsids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """The members (ascending, distinct), and warnings for the client.

    ``coming`` are the members in the world of the generation that is being built; None: none
    is, or they are not known.
    """

    sub_ids: tuple[int, ...]
    peids: Int64s
    warnings: tuple[str, ...] = ()
    coming: Int64s | None = None


@dataclass(frozen=True, slots=True)
class LookUp:
    """Which slots hold these entities: all that one read of a publisher needs.

    Answer: ``core.looked_up(request_id, {peid: slots})`` or
    ``core.look_up_failed(request_id, text)``.
    """

    request_id: int
    peids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """These subscriptions have ended: their registration and rows may go. No answer."""

    sub_ids: tuple[int, ...]


Request: TypeAlias = Authenticate | Judge | Resolve | LookUp | Forget


class Outbox:
    """Collected during a call into the core, emptied by the shell after it."""

    __slots__ = ("blocked", "closing", "requests", "unblocked", "writes")

    def __init__(self) -> None:
        # Connections with bytes to write (``core.output_of``), each once.
        self.writes: list[Connection] = []
        # To be closed once their last bytes are written.
        self.closing: list[Connection] = []
        self.requests: list[Request] = []
        # Connections that wait for an answer: do not read from them.
        self.blocked: list[Connection] = []
        # Connections that wait for nothing any more: read from them again.
        self.unblocked: list[Connection] = []


class PendingRequests:
    """Numbers requests, and calls back with their answers."""

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, Callable[..., None]] = {}

    def open(self, answered: Callable[..., None]) -> int:
        """Return the number of a new request; ``answered`` is called with the answer."""
        self._last += 1
        self._open[self._last] = answered
        return self._last

    def answer(self, request_id: int, *answer: Any) -> None:
        """Take an answer; KeyError when no such request is open."""
        self._open.pop(request_id)(*answer)

    def __len__(self) -> int:
        """Return the number of open requests."""
        return len(self._open)


@dataclass(frozen=True, slots=True, eq=False)
class Promised:
    """A packet held back until the journal is stored up to ``position``."""

    position: int
    data: bytes
    then: Callable[[], None] | None
    # Asked when its turn comes: whether it must not be sent any more.
    is_off: Callable[[], bool] | None


class OutputGate:
    """The one place that appends to ``Connection.out``, except for the fast path."""

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

    def promise(
        self,
        connection: Connection,
        data: bytes,
        then: Callable[[], None] | None = None,
        is_off: Callable[[], bool] | None = None,
    ) -> None:
        """Write once all records so far are stored; promises keep their order.

        If it must wait, ``is_off`` is asked then whether it is not to be written after all.
        """
        position = self._journal.position
        if position <= self._journal.committed and not connection.promised:
            self.send(connection, data)
            if then is not None:
                then()
            return
        connection.promised.append(Promised(position, data, then, is_off))
        self._waiting[connection] = None

    def commit(self, stored: int) -> None:
        """Write what may be written once the journal is stored up to a position."""
        self._journal.committed = stored
        for connection in list(self._waiting):
            promised = connection.promised
            while promised and promised[0].position <= stored:
                one = promised.popleft()
                if connection.is_closed or (one.is_off is not None and one.is_off()):
                    continue
                self.send(connection, one.data)
                if one.then is not None:
                    one.then()
            if not promised:
                self._waiting.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        """Drop all promises of a connection that is closed."""
        connection.promised.clear()
        self._waiting.pop(connection, None)
