"""Data of requests to the resolver: limits, counts, members, refusals, and a cache of answers."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker.codec.reason_codes import ReasonCode
from schemas.errors import SpapsError, WorldError
from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverLimits:
    """Limits on the cost of one neighborhood, and on how many may wait; None: no limit."""

    # Seconds from the start of its turn.
    seconds: float = 10.0
    # Seconds to wait for a process that is restarting.
    away_seconds: float = 10.0
    # Members of all stages, visible or not.
    members: int | None = 100_000
    # Waiting neighborhoods of all clients, and of one user name or address.
    waiting: int | None = 1_000
    waiting_of_owner: int | None = 250


@dataclass(slots=True)
class ResolverCounts:
    """Counts for metrics, over all versions."""

    resolved: int = 0
    reused: int = 0
    refused: int = 0
    # Refused because too many waited, and because the process had to be ended for them.
    crowded: int = 0
    late: int = 0
    # Requests repeated because the process ended, and processes that ended.
    asked_again: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class VersionResolution:
    """The members of a neighborhood on one world version (ascending, distinct).

    ``descriptor`` is JSON, also when the client used the compact notation.
    """

    version: int
    descriptor: str
    neighborhood_hash: str
    peids: Int64s
    warnings: tuple[str, ...] = ()
    # Members of all stages, visible or not, as counted by the limit.
    members_of_stages: int = 0


class NeighborhoodRefusedError(SpapsError):
    """A neighborhood that is refused; the text is the reason string for the client."""

    def __init__(
        self,
        reason: ReasonCode,
        text: str,
        *,
        lacks_references: bool = False,
        is_passing: bool = False,
    ) -> None:
        """Set the reason code of the SUBACK, and whether no reference exists.

        ``is_passing``: the resolver did not answer, so a later attempt may succeed.
        """
        super().__init__(text)
        self.reason = reason
        self.lacks_references = lacks_references
        self.is_passing = is_passing


def away_error() -> NeighborhoodRefusedError:
    """Return the refusal for a resolver that does not answer."""
    return NeighborhoodRefusedError(
        ReasonCode.UNSPECIFIED_ERROR, "the resolver is starting again, try later", is_passing=True
    )


class ResolverGoneError(SpapsError):
    """The resolver process ended before it answered; another process may answer."""


class ResolverLostError(WorldError):
    """The resolver process ended while it loaded the world; another one may fail too."""


class ResolverLateError(SpapsError):
    """The resolver process was ended because this request took too long."""


Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """A cache bounded by bytes, least recently used first out. Not thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self.used_bytes = 0

    def get(self, key: str) -> Value | None:
        """Return the value of the key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, value: Value, size: int) -> None:
        """Store a value of ``size`` bytes, unless it is larger than the whole cache."""
        self.discard(key)
        cost = size + len(key)
        if cost > self._max_bytes:
            return
        self._entries[key] = (value, cost)
        self.used_bytes += cost
        while self.used_bytes > self._max_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self.used_bytes -= freed

    def discard(self, key: str) -> None:
        """Remove the value of the key."""
        _, freed = self._entries.pop(key, (None, 0))
        self.used_bytes -= freed

    def clear(self) -> None:
        """Remove all values."""
        self._entries.clear()
        self.used_bytes = 0

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._entries)
