"""Resolves neighborhoods in force whose members are not known yet, until they are.

The resolver did not answer when they were restored or when a generation was loaded. While it does
not answer, messages with a peid that match their topic filters are refused, so that none is
acknowledged and then missed (docs/promise.md). A neighborhood on which a running resolver fails
has no members until it succeeds, because others must not wait for it; it is counted and shown.
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
from broker.resolver.resolver_requests import NeighborhoodRefusedError
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

# Pause between two rounds, and before a neighborhood that was refused is tried again.
ROUND_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 60.0
ASKED_AT_ONCE: Final = 16
MEMBERS_AT_ONCE: Final = 1_000


class UnresolvedCause(Enum):
    """Why the members are not known."""

    UNANSWERED = "unanswered"  # the resolver was away
    FAILED = "failed"  # it met an error that may not come again
    REFUSED = "refused"  # the neighborhood costs too much, or is not understood


class AdoptionResolver:
    """Resolves subscriptions that a generation does not hold, when it is adopted.

    ``patience``: seconds that a start waits without any answer before it continues.
    """

    def __init__(self, resolver: LiveResolver, patience: float) -> None:
        self._resolver = resolver
        self._patience = patience
        self._last_answer: float | None = None

    async def resolve(
        self, terms: SubscriptionTerms, *, is_start: bool
    ) -> ComingMembers | UnresolvedCause:
        """Return the members, or why they are not known; the wait is bounded."""
        if self._last_answer is None:
            self._last_answer = time.monotonic()
        work = self._resolver.resolve_coming(terms.descriptor or "")
        try:
            members = await (self._within_patience(work) if is_start else work)
        except TimeoutError:
            return UnresolvedCause.UNANSWERED
        except NeighborhoodRefusedError as error:
            log.warning("subscription %s has no members yet: %s", terms.sub_id, error)
            if error.is_passing:
                return UnresolvedCause.UNANSWERED
            is_failure = error.reason is ReasonCode.UNSPECIFIED_ERROR
            return UnresolvedCause.FAILED if is_failure else UnresolvedCause.REFUSED
        self._last_answer = time.monotonic()
        if members.lacks_references:
            # The subscription is kept: it has members again when its references are back.
            log.warning("subscription %s has no members: no reference exists", terms.sub_id)
        return members

    async def _within_patience(self, work: Coroutine[Any, Any, ComingMembers]) -> ComingMembers:
        """Wait as long as the resolver answers any request; TimeoutError when it does not."""
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
class _WaitingNeighborhood:
    subscription: Subscription
    slot: int
    # True: the resolver did not answer at all. False: it refused this neighborhood.
    is_unanswered: bool
    next_at: float = 0.0


class WaitingNeighborhoods:
    """The waiting neighborhoods of the world in force; all calls come from the event loop."""

    def __init__(self, resolver: LiveResolver, neighborhoods: Neighborhoods) -> None:
        self._resolver = resolver
        self._neighborhoods = neighborhoods
        self._entries: list[_WaitingNeighborhood] = []
        # Held while a generation is adopted, so that members are not entered twice.
        self.adopting = asyncio.Lock()

    @property
    def unanswered(self) -> int:
        """Number of neighborhoods under whose filters messages are refused."""
        return sum(one.is_unanswered for one in self._entries)

    @property
    def refused(self) -> int:
        """Number of neighborhoods on which the resolver failed; they have no members for now."""
        return len(self._entries) - self.unanswered

    def replace(self, slots: Mapping[int, bool]) -> None:
        """Set the neighborhoods that wait from now on: by slot, whether unanswered."""
        self._neighborhoods.members_changed()
        found = [(self._neighborhoods.at(slot), slot, slots[slot]) for slot in slots]
        self._entries = [
            _WaitingNeighborhood(one, slot, left) for one, slot, left in found if one is not None
        ]
        self._hold()

    async def run(self) -> None:
        """Resolve waiting neighborhoods again and again, until cancelled."""
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            if self._entries:
                await self.ask_again()

    async def ask_again(self) -> None:
        """Try once each neighborhood whose time has come."""
        self._forget_ended()
        now = time.monotonic()
        due = [one for one in self._entries if one.next_at <= now]
        for start in range(0, len(due), ASKED_AT_ONCE):
            await asyncio.gather(*map(self._ask, due[start : start + ASKED_AT_ONCE]))
        self._hold()

    async def _ask(self, entry: _WaitingNeighborhood) -> None:
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
            # A generation that came meanwhile has its members, or lists it again.
            if entry in self._entries and await self._entered(entry, peids):
                log.info("subscription %s has its members now", entry.subscription.terms.sub_id)
            if entry in self._entries:
                self._entries.remove(entry)

    async def _entered(self, entry: _WaitingNeighborhood, peids: Int64s | None) -> bool:
        """Enter the members, some per turn; return False when the subscription has ended."""
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
        self._neighborhoods.refuse_messages_under(
            one.subscription for one in self._entries if one.is_unanswered
        )
