"""What leaves the core: requests to the shell, and bytes, at once or when their promise is stored.

The core never waits. A request goes into the outbox, and what depends on its answer is held
back. The shell calls ``answer`` of the request later: exactly once, on the thread that calls the
core, also after the connection that caused it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from broker.codec.reason_codes import ReasonCode

if TYPE_CHECKING:
    from broker.core.journal import Journal
    from broker.core.sessions.connection import Connection
    from broker.core.verdicts import Action, Identity, Verdict
    from broker.filter.memberships import Slots
    from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True)
class Authenticate:
    """May the client connect? SUCCESS lets it in.

    The answer is a reason, the user name that was established, and a reason string.
    """

    connection: Connection
    client_id: str
    user_name: str | None
    password: bytes | None = field(repr=False)
    answer: Callable[[ReasonCode, str | None, str | None], None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Judge:
    """May the client use the topic? Asked when ``AccessControl`` gave None."""

    client: Identity
    topic: str
    action: Action
    answer: Callable[[Verdict], None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Resolve:
    """Resolve a neighborhood and register it once for each filter, giving as many subIds.

    ``descriptor`` is ``@NAME`` for a named neighborhood, with ``name`` beside it.

    ``nsids`` are chosen by the client or by the core, one for each filter. ``owner`` is the
    user name or address that the client's turns count for. When the answer is ``Resolution``, the
    subscription is put in force, in this call or in chunks.
    """

    client: Identity
    owner: str
    descriptor: str
    filters: tuple[str, ...]
    nsids: tuple[int, ...]
    answer: Callable[[Resolution | ResolutionRefusal], None] = field(repr=False)
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Resolution:
    """The members (ascending, distinct), and warnings for the client.

    ``coming`` are the members in the world of the generation that is being built; None: none
    is, or they are not known.
    """

    sub_ids: tuple[int, ...]
    peids: Int64s
    warnings: tuple[str, ...] = ()
    coming: Int64s | None = None
    # To be kept instead of the descriptor that the client wrote, as for a name or a reference by
    # key; None: that one is kept.
    descriptor: str | None = None


@dataclass(frozen=True, slots=True)
class ResolutionRefusal:
    """Why a neighborhood is not served: reason code and reason string."""

    reason: ReasonCode
    text: str


@dataclass(frozen=True, slots=True)
class LookUp:
    """Which slots hold these entities? They are all that one read of a publisher needs.

    The answer is the slots of each peid, or an empty mapping and why they cannot be read.
    """

    peids: tuple[int, ...]
    answer: Callable[[Mapping[int, Slots], str | None], None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class FindKeys:
    """Find the entities with these keys in the world in force.

    The answer is the peids of those that exist, or an empty mapping and why there is no answer.
    """

    keys: tuple[str, ...]
    answer: Callable[[Mapping[str, int], str | None], None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Forget:
    """These subscriptions have ended: their registration and rows may go. No answer."""

    sub_ids: tuple[int, ...]


Request: TypeAlias = Authenticate | Judge | Resolve | LookUp | FindKeys | Forget


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


@dataclass(frozen=True, slots=True, eq=False)
class PromisedPacket:
    """A packet held back until the journal is stored up to ``position``."""

    position: int
    data: bytes
    then: Callable[[], None] | None
    # Asked when its turn comes: whether it must not be sent any more.
    is_off: Callable[[], bool] | None


class OutputGate:
    """The one place that appends to ``Connection.out``, except for the fast path."""

    __slots__ = ("_journal", "_outbox", "_waiting", "answers")

    def __init__(self, outbox: Outbox, journal: Journal) -> None:
        self._outbox = outbox
        self._journal = journal
        # Connections with promises, in a dictionary for its order.
        self._waiting: dict[Connection, None] = {}
        # Packets other than PUBLISH, those that still wait included.
        self.answers = 0

    def send(self, connection: Connection, data: bytes) -> None:
        """Write a packet now that is no PUBLISH."""
        self.answers += 1
        self.write(connection, data)

    def write(self, connection: Connection, data: bytes) -> None:
        """Write bytes now, and count nothing."""
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
        self.answers += is_off is None  # only a PUBLISH may be called off
        position = self._journal.position
        if position <= self._journal.committed and not connection.promised:
            self.write(connection, data)
            if then is not None:
                then()
            return
        connection.promised.append(PromisedPacket(position, data, then, is_off))
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
                self.write(connection, one.data)
                if one.then is not None:
                    one.then()
            if not promised:
                self._waiting.pop(connection, None)

    def commit_settled(self) -> None:
        """Do so for what need not be stored, because it is acknowledged by its receivers."""
        journal = self._journal
        if not journal.records and (settled := journal.settled) > journal.committed:
            self.commit(settled)

    def forget(self, connection: Connection) -> None:
        """Drop all promises of a connection that is closed."""
        connection.promised.clear()
        self._waiting.pop(connection, None)
