"""What the core wants from its surroundings, and the answers' shapes.

The core never waits. A question goes into the outbox with a ticket; whatever depends on the
answer is held back, and the answer comes in later as a call with the same ticket. Every
ticket must be answered exactly once, also after the connection that caused it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from broker.core.verdicts import Action, Identity
from spatial_udfs.entity_table import Int64s

if TYPE_CHECKING:
    from broker.core.sessions.connection import Connection
from collections.abc import Callable
from typing import Any


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Answer: ``core.authenticated(ticket, reason)``; SUCCESS lets the client in."""

    ticket: int
    connection: Connection
    client_id: str
    user_name: str | None
    password: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Judge:
    """Answer: ``core.judged(ticket, verdict)``. Asked when ``AccessControl`` gave None."""

    ticket: int
    client: Identity
    topic: str
    action: Action


@dataclass(frozen=True, slots=True)
class Resolve:
    """Resolve a neighborhood and register it once for each filter, giving as many subIds.

    Answer: ``core.resolved(ticket, resolved)`` or ``core.refused(ticket, reason, text)``.
    ``nsids`` are those of the client's own choice or ours, one for each filter. ``owner`` is the
    user name or address that the client's turns count for.
    """

    ticket: int
    client: Identity
    owner: str
    descriptor: str
    filters: tuple[str, ...]
    nsids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """The members (ascending, distinct), and what the client should be told about them.

    ``coming`` are the members in the world of the generation that is being built; None: none
    is, or they are not known.
    """

    sub_ids: tuple[int, ...]
    peids: Int64s
    warnings: tuple[str, ...] = ()
    coming: Int64s | None = None


@dataclass(frozen=True, slots=True)
class LookUp:
    """Which slots hold these entities: all that one read of a publisher needs, in one go.

    Answer: ``core.looked_up(ticket, {peid: slots})`` or ``core.look_up_failed(ticket, text)``.
    """

    ticket: int
    peids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """These subscriptions are over: their registration and rows may go. No answer."""

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
    """Numbers questions; an answer uses its ticket up."""

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, Callable[..., None]] = {}

    def open(self, answered: Callable[..., None]) -> int:
        """A ticket for a question; ``answered`` is called with the answer."""
        self._last += 1
        self._open[self._last] = answered
        return self._last

    def answer(self, ticket: int, *answer: Any) -> None:
        """Bring an answer; a ticket that is not open is a mistake of the caller."""
        self._open.pop(ticket)(*answer)

    def __len__(self) -> int:
        """The number of open questions."""
        return len(self._open)
