"""What leaves the core: requests to the shell, and bytes, at once or when their promise is stored.

The core never waits. A request goes into the outbox, and what depends on its answer is held
back. The shell calls ``answer`` of the request later: exactly once, on the thread that calls the
core, also after the connection that caused it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.codec.fields import MAX_REMAINING_LENGTH, read_header
from broker.codec.publish import read_publish
from broker.codec.reason_codes import ProtocolError, ReasonCode

if TYPE_CHECKING:
    from broker.core.core_state import CoreState
    from broker.core.journal import Journal
    from broker.core.sessions.connection import Connection
    from broker.core.verdicts import Action, Identity, Verdict
    from broker.filter.memberships import Slots
    from spatial_udfs.entity_table import Int64s

# Packets were compared with the real limit when they came in.
_NO_LIMIT: Final = 2 * MAX_REMAINING_LENGTH


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
                self.send(connection, one.data)
                if one.then is not None:
                    one.then()
            if not promised:
                self._waiting.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        """Drop all promises of a connection that is closed."""
        connection.promised.clear()
        self._waiting.pop(connection, None)


class LookAhead:
    """Requests all memberships that a chunk of input needs, and blocks its publisher until then."""

    __slots__ = ("_resume", "_state")

    def __init__(self, state: CoreState, resume: Callable[[Connection], None]) -> None:
        self._state = state
        self._resume = resume

    def ask(self, connection: Connection, data: bytes, start: int) -> None:
        """Ask for every peid from the packet at ``start`` to the end of the chunk."""
        peids = tuple(self._unknown_peids(data, start))

        def came(found: Mapping[int, Slots], error: str | None) -> None:
            if connection.is_blocked:
                connection.found = found
                connection.failed = frozenset() if error is None else frozenset(peids)
                self._resume(connection)

        connection.is_blocked = True
        self._state.ask_memberships(peids, came)

    def _unknown_peids(self, data: bytes, position: int) -> dict[int, None]:
        most_users = self._state.limits.user_properties
        look_up, known = self._state.memberships.look_up, self._state.routes.by_topic
        unknown: dict[int, None] = {}
        try:
            while position < len(data):
                header = read_header(data, position, _NO_LIMIT)
                if header is None or header[1] > len(data):
                    break
                if data[position] & 0xF0 == 0x30:
                    publish = read_publish(data, data[position], *header, most_users)
                    peid = publish.properties.peid
                    if peid is None and (route := known.get(publish.topic)) is not None:
                        peid = route.gateway_peid
                    if peid is not None and look_up(peid) is None:
                        unknown[peid] = None
                position = header[1]
        except ProtocolError:
            # Reported when its turn comes: the packets before it are served.
            pass
        return unknown
