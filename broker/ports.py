"""What the shell needs from whoever keeps things beyond this process, and the versions without.

Behind these three lies Redis when there is one. Without it nothing outlives the broker, subIds
are numbers of this run, and no look-up ever has to ask.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from broker.core.journal import Record
from broker.core.requests import Resolve
from broker.filter.memberships import Slots
from broker.resolver.resolver_answers import VersionResolution
from schemas.errors import SpapsError


class StoreAwayError(SpapsError):
    """What is asked for cannot be done now, because the store cannot be reached."""


class JournalStore(Protocol):
    """Keeps the core's records."""

    # Whether records are wanted at all.
    is_durable: bool

    async def load(self) -> Sequence[Record]:
        """Everything that was kept, for ``core.restore``."""

    async def save(self, records: Sequence[Record]) -> None:
        """Store the records in one step and in order; returns when they are safe.

        Called again only after it has returned. It never raises: a store that is away decides
        by itself how long it waits, and what it owes afterwards.
        """

    async def close(self) -> None:
        """Nothing comes any more."""


class SubscriptionRegistry(Protocol):
    """Gives each subscription its number in the whole system."""

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:
        """One subId for each filter of the request; StoreAwayError when none can be given."""

    async def forget(self, sub_ids: Sequence[int]) -> None:
        """These subscriptions are over. Never raises."""


class MembershipReader(Protocol):
    """Reads memberships that are not in this process."""

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """The slots of every peid asked for; StoreAwayError when they cannot be read."""


class NoJournal:
    """Nothing is kept."""

    is_durable = False

    async def load(self) -> Sequence[Record]:
        """Nothing was kept."""
        return ()

    async def save(self, records: Sequence[Record]) -> None:
        """Never called: the core records nothing without a durable store."""

    async def close(self) -> None:
        """Nothing to do."""


class RegistryOfThisRun:
    """Numbers from 1, in this process alone."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def register(self, request: Resolve, resolution: VersionResolution) -> tuple[int, ...]:  # noqa: ARG002 - the protocol's shape
        """The next numbers."""
        return tuple(itertools.islice(self._numbers, len(request.filters)))

    async def forget(self, sub_ids: Iterable[int]) -> None:
        """Nothing is kept under them."""


class NoReader:
    """For memberships that are always in this process."""

    async def look_up(self, peids: Sequence[int]) -> Mapping[int, Slots]:
        """Never called in the modes ``none`` and ``memory``."""
        raise StoreAwayError(f"memberships of {len(peids)} entities are kept nowhere else")
