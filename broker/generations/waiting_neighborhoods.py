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
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from broker.codec.reason_codes import ReasonCode
from broker.core.subscribe.subscription import Subscription, SubscriptionTerms
from broker.core.world_changes import Neighborhoods
from broker.resolver.live_resolver import ComingMembers, LiveResolver
from broker.resolver.resolver_answers import NeighborhoodRefusedError
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

# Pause between two rounds, and before one that was refused for its own sake is asked for again.
ROUND_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 60.0
ASKED_AT_ONCE: Final = 16
MEMBERS_AT_ONCE: Final = 1_000


class Unresolved(Enum):
    """Why the members are not known."""

    UNANSWERED = "unanswered"  # the resolver was away
    FAILED = "failed"  # it met an error that may not come again
    REFUSED = "refused"  # the neighborhood costs too much, or is not understood


class LateMembers:
    """Resolves subscriptions that a generation does not hold, when it is adopted.

    ``patience``: so long a start waits without any answer before it goes on without.
    """

    def __init__(self, resolver: LiveResolver, patience: float) -> None:
        self._resolver = resolver
        self._patience = patience
        self._last_answer: float | None = None

    async def resolve(
        self, terms: SubscriptionTerms, *, is_start: bool
    ) -> ComingMembers | Unresolved:
        """Return the members, or why they are not known; never waits for ever."""
        if self._last_answer is None:
            self._last_answer = time.monotonic()
        work = self._resolver.resolve_coming(terms.descriptor or "")
        try:
            members = await (self._within_patience(work) if is_start else work)
        except TimeoutError:
            return Unresolved.UNANSWERED
        except NeighborhoodRefusedError as error:
            log.warning("subscription %s has no members yet: %s", terms.sub_id, error)
            if error.is_passing:
                return Unresolved.UNANSWERED
            is_failure = error.reason is ReasonCode.UNSPECIFIED_ERROR
            return Unresolved.FAILED if is_failure else Unresolved.REFUSED
        self._last_answer = time.monotonic()
        if members.lacks_references:
            # It stays: when its references come back, so do its members.
            log.warning("subscription %s holds nothing now: no reference exists", terms.sub_id)
        return members

    async def _within_patience(self, work: Coroutine[Any, Any, ComingMembers]) -> ComingMembers:
        """Wait as long as answers come, to this or to others; TimeoutError when none does."""
        task = asyncio.create_task(work)
        try:
            while True:
                left = (self._last_answer or 0.0) + self._patience - time.monotonic()
                done, _ = await asyncio.wait({task}, timeout=max(0.0, left))
                if done:
                    return task.result()
                if left <= 0:
                    raise TimeoutError
        finally:
            task.cancel()


@dataclass(slots=True, eq=False)
class _Waiting:
    subscription: Subscription
    slot: int
    # Whether the resolver did not answer at all, or refused this one.
    is_unanswered: bool
    next_at: float = 0.0


class WaitingNeighborhoods:
    """Those that wait in the world in force; all calls come from the event loop."""

    def __init__(self, resolver: LiveResolver, neighborhoods: Neighborhoods) -> None:
        self._resolver = resolver
        self._neighborhoods = neighborhoods
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
        self._neighborhoods.members_changed()
        found = [(self._neighborhoods.at(slot), slot, slots[slot]) for slot in slots]
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
        if peids is None:
            return True
        for start in range(0, len(peids), MEMBERS_AT_ONCE):
            some = peids[start : start + MEMBERS_AT_ONCE]
            if not self._neighborhoods.add_members(entry.subscription, entry.slot, some):
                return False
            await asyncio.sleep(0)
        return True

    def _forget_ended(self) -> None:
        self._entries = [
            one for one in self._entries if self._neighborhoods.at(one.slot) is one.subscription
        ]

    def _hold(self) -> None:
        self._neighborhoods.hold_messages(
            one.subscription for one in self._entries if one.is_unanswered
        )
