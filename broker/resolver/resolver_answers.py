"""What the resolver is asked with and answers: limits, counts, members, refusals; their cache."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker.codec.reason_codes import ReasonCode
from schemas.errors import SpapsError, WorldError
from spatial_udfs.entity_table import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverLimits:
    """What one neighborhood may cost, and how many may wait at once; None: any number."""

    # From its turn on.
    seconds: float = 10.0
    # How long it waits for a process that starts again.
    away_seconds: float = 10.0
    # Of all stages, visible or not.
    members: int | None = 100_000
    # Of all clients together, and of one user name or address.
    waiting: int | None = 1_000
    waiting_of_owner: int | None = 250


@dataclass(slots=True)
class ResolverCounts:
    """Counted for metrics, over all versions."""

    resolved: int = 0
    reused: int = 0
    refused: int = 0
    # Refused because too many waited, and because the process had to be ended over them.
    crowded: int = 0
    late: int = 0
    # Asked again because the process ended, and processes that ended.
    asked_again: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class VersionResolution:
    """What a neighborhood holds on one world version (ascending, distinct).

    ``descriptor`` is JSON, also when the client wrote the compact notation.
    """

    version: int
    descriptor: str
    neighborhood_hash: str
    peids: Int64s
    warnings: tuple[str, ...] = ()
    # Of all stages, visible or not; what the limit of members counts.
    members_of_stages: int = 0


class NeighborhoodRefusedError(SpapsError):
    """A neighborhood that is not served; its text is what the client gets to read."""

    def __init__(
        self,
        reason: ReasonCode,
        text: str,
        *,
        lacks_references: bool = False,
        is_passing: bool = False,
    ) -> None:
        """Keep the reason code for the SUBACK, and whether no reference exists.

        ``is_passing``: the resolver did not answer, so the same may be answered later.
        """
        super().__init__(text)
        self.reason = reason
        self.lacks_references = lacks_references
        self.is_passing = is_passing


def away_error() -> NeighborhoodRefusedError:
    """Return the refusal of what nobody answers now."""
    return NeighborhoodRefusedError(
        ReasonCode.UNSPECIFIED_ERROR, "the resolver is starting again, try later", is_passing=True
    )


class ResolverGoneError(SpapsError):
    """The resolver process ended before it answered: another one may answer."""


class ResolverLostError(WorldError):
    """The resolver process ended while it loaded the world: another one may not."""


class ResolverLateError(SpapsError):
    """The resolver process was ended because of this request, which took too long."""


Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Not for several threads at once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self.used_bytes = 0

    def get(self, key: str) -> Value | None:
        """Return what was put under the key, if it is still there."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, value: Value, size: int) -> None:
        """Remember a value of ``size`` bytes; one that is larger than all room is not kept."""
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
        """Forget what is under the key."""
        _, freed = self._entries.pop(key, (None, 0))
        self.used_bytes -= freed

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.used_bytes = 0

    def __len__(self) -> int:
        """Return the number of values kept."""
        return len(self._entries)
