"""Neighborhoods in force whose members are not known yet: asked for again until they are.

The resolver did not answer when they were restored or when a generation was loaded. While it is
away, messages about entities under their topic filters are refused, so that none is acknowledged
and then missed (docs/promise.md). A neighborhood that a running resolver fails on holds nothing
until it is answered, because others must not stop for its sake; it is counted and shown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from broker.core.subscribe.subscription import Subscription
from broker.resolver.resolver_answers import NeighborhoodRefusedError, VersionResolution
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

# Pause between two rounds, and before one that was refused for its own sake is asked for again.
ROUND_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 60.0
ASKED_AT_ONCE: Final = 16
MEMBERS_AT_ONCE: Final = 1_000


class WaitingCore(Protocol):
    """The core, as far as it is needed here."""

    def at(self, slot: int) -> Subscription | None:
        """Return the subscription that has the slot."""

    def hold_messages(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse messages about entities under the filters of these, and of no others."""

    def members_changed(self) -> None:
        """Something else is in force."""

    def add_members(self, subscription: Subscription, slot: int, peids: Int64s) -> bool:
        """Enter members; False: the subscription has left the slot."""


class PresentWorld(Protocol):
    """The live resolver."""

    async def resolve_in_force(self, descriptor: str) -> VersionResolution:
        """Members in the world in force."""


@dataclass(slots=True, eq=False)
class _Waiting:
    subscription: Subscription
    slot: int
    # Whether the resolver did not answer at all, or refused this one.
    is_unanswered: bool
    next_at: float = 0.0


class WaitingNeighborhoods:
    """All calls come from the event loop; ``core`` is set before the first one waits."""

    def __init__(self, resolver: PresentWorld) -> None:
        self._resolver = resolver
        self.core: WaitingCore | None = None
        self._entries: list[_Waiting] = []
        # Held while a generation is adopted: what is entered then would be entered twice.
        self.adopting = asyncio.Lock()

    @property
    def unanswered(self) -> int:
        """Those under whose filters messages are refused."""
        return sum(one.is_unanswered for one in self._entries)

    @property
    def refused(self) -> int:
        """Those that the resolver failed on, and that hold nothing until it does not."""
        return len(self._entries) - self.unanswered

    def replace(self, slots: Mapping[int, bool]) -> None:
        """Take the neighborhoods that wait from now on: by slot, whether unanswered."""
        if self.core is None:
            return
        self.core.members_changed()
        found = [(self.core.at(slot), slot, slots[slot]) for slot in slots]
        self._entries = [_Waiting(one, slot, left) for one, slot, left in found if one is not None]
        self._hold()

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            if self._entries:
                await self.ask_again()

    async def ask_again(self) -> None:
        """Ask once for each whose time has come."""
        self._forget_ended()
        now = time.monotonic()
        due = [one for one in self._entries if one.next_at <= now]
        for start in range(0, len(due), ASKED_AT_ONCE):
            await asyncio.gather(*map(self._ask, due[start : start + ASKED_AT_ONCE]))
        self._hold()

    async def _ask(self, entry: _Waiting) -> None:
        descriptor = entry.subscription.terms.descriptor or ""
        try:
            peids = (await self._resolver.resolve_in_force(descriptor)).peids
        except NeighborhoodRefusedError as error:
            if not error.lacks_references:
                entry.is_unanswered = error.is_passing
                entry.next_at = time.monotonic() + (0 if error.is_passing else REFUSED_SECONDS)
                return
            peids = None
        async with self.adopting:
            # A generation that came meanwhile knows its members, or lists it anew.
            if entry in self._entries and await self._entered(entry, peids):
                log.info("subscription %s has its members now", entry.subscription.terms.sub_id)
            if entry in self._entries:
                self._entries.remove(entry)

    async def _entered(self, entry: _Waiting, peids: Int64s | None) -> bool:
        """Enter the members between other clients' packets; False: the subscription is over."""
        if peids is None or self.core is None:
            return True
        for start in range(0, len(peids), MEMBERS_AT_ONCE):
            some = peids[start : start + MEMBERS_AT_ONCE]
            if not self.core.add_members(entry.subscription, entry.slot, some):
                return False
            await asyncio.sleep(0)
        return True

    def _forget_ended(self) -> None:
        core = self.core
        self._entries = [
            one
            for one in self._entries
            if core is not None and core.at(one.slot) is one.subscription
        ]

    def _hold(self) -> None:
        if self.core is not None:
            self.core.hold_messages(one.subscription for one in self._entries if one.is_unanswered)
