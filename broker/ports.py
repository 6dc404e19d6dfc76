"""The ports to what is stored outside of this process: journal, registry and memberships.

With Redis they are in ``broker.durability`` and ``broker.generations``. Without it the versions
here are used: nothing survives the process, subIds are numbers of this run, and every look-up is
answered in this process.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from broker.codec.reason_codes import ReasonCode
from broker.core.journal import Record
from broker.core.requests import Resolve
from broker.filter.memberships import Memberships, NoMemberships, Slots
from broker.filter.memberships_memory import MemoryMemberships
from broker.filter.memberships_redis import RedisMemberships
from broker.resolver.resolver_requests import NeighborhoodRefusedError, VersionResolution
from schemas.errors import SettingsError, SpapsError
from schemas.named_neighborhood import NamedNeighborhood

LEASE_SECONDS: Final = 6.0
# After so long without a turn of its event loop a broker counts as stopped, not as slow.
STUCK_SECONDS: Final = 300.0
MODES: Final = ("memory", "redis", "none")


class StoreAwayError(SpapsError):
    """The request cannot be served now, because the store cannot be reached."""


class JournalState(Enum):
    """Where records are stored."""

    PRESENT = "present"  # into Redis, before anything is acknowledged
    AWAY = "away"  # Redis cannot be reached: into memory
    TAKEN = "taken"  # another process owns the durable state: into memory, until the end


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLimits:
    """Times are seconds."""

    # How long Redis may take to answer, and how long acknowledgements wait for it in all.
    answer_seconds: float = 2.0
    patience_seconds: float = 5.0
    # Records that may gather while an earlier step waits for its answer.
    waiting_records: int = 100_000
    # Changes kept in memory while Redis is away; beyond it the whole state is written again.
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
    """Stores the core's records."""

    # Whether the core makes records.
    is_durable: bool

    async def load(self) -> Sequence[Record]:
        """Return all stored records, for ``core.restore``."""

    async def save(self, records: Sequence[Record]) -> None:
        """Store the records in one step and in order; return when they are durable.

        Called again only after it has returned. It never raises: while the store cannot be reached
        it waits up to a limit, and stores the records later.
        """

    async def close(self) -> None:
        """Store what is left, and close."""


class SubscriptionRegistry(Protocol):
    """Gives each subscription its subId, which is unique in the whole system."""

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:
        """Return one subId for each filter of the request; StoreAwayError if none can be given."""

    async def forget(self, sub_ids: Sequence[int]) -> None:
        """Remove subscriptions that have ended. Never raises."""


class MembershipReader(Protocol):
    """Reads memberships that are not in this process."""

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """Return the slots of every peid asked for; StoreAwayError when they cannot be read."""


class NamedDefinitions(Protocol):
    """Knows what names of neighborhoods stand for."""

    async def find(self, name: str) -> NamedNeighborhood:
        """Return what the name stands for now.

        NeighborhoodRefusedError when no neighborhood has it, StoreAwayError when that cannot be
        read.
        """


class NoNames:
    """Refuses every name."""

    async def find(self, name: str) -> NamedNeighborhood:
        """Refuse the name."""
        raise NeighborhoodRefusedError(
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
            f"the neighborhood {name!r} is not known: named neighborhoods are kept in Redis, and "
            "this broker runs without it",
        )


class NoJournal:
    """A store that stores nothing."""

    is_durable = False

    async def load(self) -> Sequence[Record]:
        """Return nothing."""
        return ()

    async def save(self, records: Sequence[Record]) -> None:
        """Never called: the core records nothing without a durable store."""

    async def close(self) -> None:
        """Do nothing."""


class RegistryOfThisRun:
    """Gives subIds from 1, in this process alone."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:  # noqa: ARG002 - the protocol's shape
        """Return the next numbers."""
        return tuple(itertools.islice(self._numbers, len(request.filters)))

    async def forget(self, sub_ids: Iterable[int]) -> None:
        """Do nothing."""


class NoReader:
    """The reader when all memberships are in this process."""

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """Never called in the modes ``none`` and ``memory``."""
        raise StoreAwayError(f"memberships of {len(peids)} entities are not in Redis")


@dataclass(frozen=True, slots=True)
class Stores:
    """Everything that is stored outside of this process; by default there is no Redis."""

    journal: JournalStore = field(default_factory=NoJournal)
    registry: SubscriptionRegistry = field(default_factory=RegistryOfThisRun)
    reader: MembershipReader = field(default_factory=NoReader)
    names: NamedDefinitions = field(default_factory=NoNames)


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


def check_broker_name(name: str) -> None:
    """Raise SettingsError for a name that keys in Redis cannot have."""
    if not re.fullmatch(r"[\w.-]{1,64}", name):
        raise SettingsError(
            f"broker.name must be 1 to 64 letters, digits, '_', '.' or '-', not {name!r}"
        )
