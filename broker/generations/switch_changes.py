"""Counts the changes of one switch while the generation is being loaded.

Changes are counted only for clients that subscribed to the notices: usually a few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from broker.core.world_changes import MemberChange
from broker.generations.change_counts import (
    AdoptedGeneration,
    lacking_by_push,
    read_pushed_changes,
    resolved_change,
    without_references,
    worth_notifying,
)
from broker.generations.loader_process import LoadResult, SubscriptionSnapshot
from broker.resolver.live_resolver import ComingMembers, LiveResolver
from redis_link.connection.redis_router import RedisRouter
from schemas.generation import GenerationFacts

COUNTED_AT_ONCE: Final = 16
# Subscriptions without members for which missing references are checked, at most.
MOST_IN_DOUBT: Final = 1_000

# The subIds of clients that receive notices, with their descriptors.
NoticeReaders = Callable[[], Mapping[int, str]]


class SwitchChanges:
    """Makes a counter for each switch, and keeps the subIds that lacked references at the last."""

    def __init__(
        self, router: RedisRouter, resolver: LiveResolver, notice_readers: NoticeReaders
    ) -> None:
        self._router = router
        self._resolver = resolver
        self._notice_readers = notice_readers
        self._lacking: frozenset[int] = frozenset()

    def restore(self, lacking: frozenset[int]) -> None:
        """Continue from what an earlier process found."""
        self._lacking = lacking

    def finish(self, counter: ChangeCounter) -> None:
        """Take over what a counter found, after its switch."""
        self._lacking = frozenset(counter.lacking)

    async def begin(
        self,
        facts: GenerationFacts | None,
        version: int,
        up_to: int,
        before: AdoptedGeneration | None,
        own: SubscriptionSnapshot,
    ) -> ChangeCounter:
        """Read the pushed changes; ``version`` is the world version that is switched to."""
        pushed = PushedSwitch(is_other_version=before is not None and before.version != version)
        if facts is not None:
            pushed.lacking = await lacking_by_push(self._router, facts.generation)
        if facts is not None and before is not None:
            same = (before.generation, before.token) == (facts.generation, facts.token)
            pushed.is_same_generation = same
            pushed.last_in_both = min(up_to, before.up_to)
            asked = [number for number in self._notice_readers() if number <= pushed.last_in_both]
            if asked:
                found = await read_pushed_changes(self._router, before, facts, asked)
                pushed.changes = found.changes
                if found.can_compare:
                    pushed.compare_with = before.generation
        return ChangeCounter(self._resolver, self._notice_readers, self._lacking, own, pushed)


@dataclass(slots=True)
class PushedSwitch:
    """What the pushes of the old and the new generation say about a switch."""

    is_other_version: bool
    # The same generation again, as after a restart: its pushed changes are complete.
    is_same_generation: bool = False
    # Both generations hold the subIds up to this one.
    last_in_both: int = -1
    # SubIds without an existing reference; None: nothing was pushed.
    lacking: set[int] | None = None
    changes: dict[int, MemberChange] | None = None
    # The old generation, when its rows are to be compared with the new ones.
    compare_with: int | None = None


class ChangeCounter:
    """Counts one switch; ``changes`` and ``lacking`` are complete after the counting."""

    def __init__(
        self,
        resolver: LiveResolver,
        notice_readers: NoticeReaders,
        lacked: frozenset[int],
        own: SubscriptionSnapshot,
        pushed: PushedSwitch,
    ) -> None:
        self._resolver = resolver
        self._notice_readers = notice_readers
        self._lacked = lacked
        self._own = own
        self._pushed = pushed
        self._counted: set[int] = set()
        self.changes: dict[int, MemberChange] = {}
        self.lacking: set[int] = set()

    @property
    def compare_with(self) -> int | None:
        """The generation whose rows are to be compared with those that are loaded."""
        return self._pushed.compare_with

    async def count(
        self, loaded: LoadResult | None, late: Mapping[int, ComingMembers], *, has_both_worlds: bool
    ) -> None:
        """Count the changes of subscriptions that were in force when loading began."""
        self.lacking = {number for number, one in late.items() if one.lacks_references}
        self.lacking |= await self._lacking_covered(loaded)
        readers = {
            number: text
            for number, text in self._notice_readers().items()
            if number in late or self._own.covers(number)
        }
        self._counted = set(readers)
        in_both = [number for number in readers if number <= self._pushed.last_in_both]
        changes = self._of_both(in_both, loaded)
        if self._pushed.is_other_version:
            rest = {
                number: text
                for number, text in readers.items()
                if number > self._pushed.last_in_both
            }
            changes |= await self._resolved(rest, has_both_worlds=has_both_worlds)
        self._add(changes, self._lacked)

    async def count_arrivals(self) -> None:
        """Count the changes of subscriptions that were made while the world was being loaded."""
        readers = self._notice_readers()
        arrived = {number: text for number, text in readers.items() if number not in self._counted}
        self._counted |= arrived.keys()
        self._add(await self._resolved(arrived, has_both_worlds=True), ())

    def _add(self, changes: dict[int, MemberChange], lacked: Collection[int]) -> None:
        self.lacking |= {number for number, one in changes.items() if one.lacks_references}
        self.changes |= worth_notifying(changes, lacked)

    def _of_both(self, numbers: list[int], loaded: LoadResult | None) -> dict[int, MemberChange]:
        """Return the changes of subscriptions in both generations, as pushed or as compared."""
        pushed = self._pushed.changes
        if pushed is not None:
            return {number: pushed[number] for number in numbers if number in pushed}
        if loaded is not None and loaded.compared is not None:
            gained, lost = loaded.compared
            places = np.searchsorted(self._own.sub_ids, numbers).tolist()
            return {
                number: MemberChange(int(gained[at]), int(lost[at]), number in self.lacking)
                for number, at in zip(numbers, places, strict=True)
            }
        unknown = numbers if self._pushed.is_other_version else []
        return dict.fromkeys(unknown, MemberChange(None, None))

    async def _resolved(
        self, wanted: Mapping[int, str], *, has_both_worlds: bool
    ) -> dict[int, MemberChange]:
        if not has_both_worlds:
            # Without the old world, as after a restart, nothing can be counted.
            return dict.fromkeys(wanted, MemberChange(None, None))
        found: dict[int, MemberChange] = {}
        ordered = sorted(wanted)
        for start in range(0, len(ordered), COUNTED_AT_ONCE):
            some = ordered[start : start + COUNTED_AT_ONCE]
            counted = await asyncio.gather(
                *(resolved_change(self._resolver, wanted[number]) for number in some)
            )
            found |= dict(zip(some, counted, strict=True))
        return found

    async def _lacking_covered(self, loaded: LoadResult | None) -> set[int]:
        """Return covered subIds without an existing reference, as pushed or as resolved."""
        own = self._own
        known = self._lacked if self._pushed.is_same_generation else self._pushed.lacking or set()
        found = {number for number in known if own.covers(number)}
        if self._pushed.is_same_generation:
            return found
        # The push has no entry for subscriptions that this generation is the first to hold.
        pushed_up_to = -1 if self._pushed.lacking is None else self._pushed.last_in_both
        if loaded is not None and loaded.has_rows:
            in_doubt = own.without_rows(loaded.counts, pushed_up_to)
        else:
            in_doubt = {number for number in self._lacked if number > pushed_up_to}
        for number, text in own.descriptors(in_doubt - found, MOST_IN_DOUBT).items():
            if await without_references(self._resolver, text):
                found.add(number)
        return found
