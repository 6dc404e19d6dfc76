"""What the shell needs from whoever keeps things beyond this process, and the versions without.

Behind these three lies Redis when there is one. Without it nothing outlives the broker, subIds
are numbers of this run, and no look-up ever has to ask.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from broker.core.journal import Record
from broker.core.requests import Resolve
from broker.filter.memberships import Memberships, NoMemberships, Slots
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from broker.resolver.resolver_requests import VersionResolution
from schemas.errors import SettingsError, SpapsError

LEASE_SECONDS: Final = 6.0
# After so long without a turn of its event loop a broker counts as stopped, not as slow.
STUCK_SECONDS: Final = 300.0
MODES: Final = ("memory", "redis", "none")


class StoreAwayError(SpapsError):
    """What is asked for cannot be done now, because the store cannot be reached."""


class JournalState(Enum):
    """Where records go."""

    PRESENT = "present"  # into Redis, before anything is acknowledged
    AWAY = "away"  # Redis cannot be reached: into memory
    TAKEN = "taken"  # another process owns the durable state: into memory, for good


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """Times are seconds."""

    # How long Redis may take to answer, and how long acknowledgements wait for it in all.
    answer_seconds: float = 2.0
    patience_seconds: float = 5.0
    # Records that may gather while an earlier step waits for its answer.
    waiting_records: int = 100_000
    # Changes that are kept in mind while Redis is away; beyond it everything is written anew.
    waiting_changes: int = 100_000
    lease_seconds: float = LEASE_SECONDS
    # How long the event loop may stand still before the lease is given up.
    stuck_seconds: float = STUCK_SECONDS


@dataclass(slots=True)
class JournalFigures:
    """Totals since the start, for metrics."""

    steps: int = 0
    stored_records: int = 0
    # Records whose promises were given although Redis did not have them.
    not_durable_records: int = 0
    times_away: int = 0
    fresh_editions: int = 0


class JournalStore(Protocol):
    """Keeps the core's records."""

    # Whether records are wanted at all.
    is_durable: bool

    async def load(self) -> Sequence[Record]:
        """Return everything that was kept, for ``core.restore``."""

    async def save(self, records: Sequence[Record]) -> None:
        """Store the records in one step and in order; returns when they are safe.

        Called again only after it has returned. It never raises: a store that is away decides
        by itself how long it waits, and what it owes afterwards.
        """

    async def close(self) -> None:
        """Store what is left and let go."""


class SubscriptionRegistry(Protocol):
    """Gives each subscription its number in the whole system."""

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:
        """Return one subId for each filter of the request; StoreAwayError if none can be given."""

    async def forget(self, sub_ids: Sequence[int]) -> None:
        """Remove subscriptions that are over. Never raises."""


class MembershipReader(Protocol):
    """Reads memberships that are not in this process."""

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """Return the slots of every peid asked for; StoreAwayError when they cannot be read."""


class NoJournal:
    """Nothing is kept."""

    is_durable = False

    async def load(self) -> Sequence[Record]:
        """Return nothing."""
        return ()

    async def save(self, records: Sequence[Record]) -> None:
        """Never called: the core records nothing without a durable store."""

    async def close(self) -> None:
        """Do nothing."""


class RegistryOfThisRun:
    """Numbers from 1, in this process alone."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:  # noqa: ARG002 - the protocol's shape
        """Return the next numbers."""
        return tuple(itertools.islice(self._numbers, len(request.filters)))

    async def forget(self, sub_ids: Iterable[int]) -> None:
        """Do nothing."""


class NoReader:
    """For memberships that are always in this process."""

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """Never called in the modes ``none`` and ``memory``."""
        raise StoreAwayError(f"memberships of {len(peids)} entities are kept nowhere else")


def memberships_of_mode(mode: str, *, has_redis: bool) -> Memberships:
    """Return the memberships of a mode; SettingsError for one that is unknown or needs Redis."""
    match mode:
        case "none":
            return NoMemberships()
        case "memory":
            return MemoryMemberships()
        case "redis" if has_redis:
            return RedisMemberships()
        case "redis":
            raise SettingsError("broker.memberships = redis needs Redis, which is not in use")
        case other:
            modes = f"{', '.join(MODES[:-1])} or {MODES[-1]}"
            raise SettingsError(f"broker.memberships must be {modes}, not {other!r}")
