"""The changes that one switch makes, collected while the generation is being loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from broker.change_counting import (
    Adopted,
    TwoWorlds,
    lacking_by_push,
    resolved_change,
    told_by_pushes,
    without_references,
    worth_telling,
)
from broker.generation_reading import Loaded
from broker.live_resolver import ComingMembers
from broker.subscription import Subscription
from broker.world_telling import MemberChange
from redis_link.wires import Wires
from schemas.generation import GenerationFacts

COUNTED_AT_ONCE: Final = 16


class SwitchChanges:
    """``listening`` are the subIds whose clients want to know."""

    def __init__(
        self, wires: Wires, resolver: TwoWorlds, listening: Callable[[], Collection[int]]
    ) -> None:
        self._wires = wires
        self._resolver = resolver
        self._listening = listening
        # SubIds of which no reference exists in the world in force.
        self.lacking: set[int] = set()

    async def begin(
        self,
        facts: GenerationFacts | None,
        up_to: int,
        before: Adopted | None,
        own: Mapping[int, Subscription],
    ) -> Counting:
        """Read what the push said; ``own`` are the subscriptions in force by subId."""
        counting = Counting(self._resolver, self._listening, set(self.lacking), own)
        if facts is None:
            return counting
        counting.lacking_told = await lacking_by_push(self._wires, facts.generation)
        if before is None:
            return counting
        same = (before.generation, before.token) == (facts.generation, facts.token)
        counting.is_same_generation = same
        counting.is_other_version = before.version != facts.version
        last = min(up_to, before.up_to)
        counting.in_both = {number for number in own if number <= last}
        if counting.in_both:
            said = await told_by_pushes(self._wires, before, facts)
            counting.told = said.changes
            if said.can_compare and not counting.in_both.isdisjoint(self._listening()):
                counting.compare_with = before.generation
        return counting


class Counting:
    """One switch. ``changes`` and ``lacking`` are complete once all is counted."""

    def __init__(
        self,
        resolver: TwoWorlds,
        listening: Callable[[], Collection[int]],
        lacked: set[int],
        own: Mapping[int, Subscription],
    ) -> None:
        self._resolver = resolver
        self._listening = listening
        self._lacked = lacked
        self._own = own
        self.lacking_told: set[int] | None = None
        self.is_other_version = False
        # As after a restart: what is known of it is all there is to know.
        self.is_same_generation = False
        # SubIds that the generation before and the new one hold; what the pushes said of them.
        self.in_both: set[int] = set()
        self.told: dict[int, MemberChange] | None = None
        self.compare_with: int | None = None
        self.changes: dict[int, MemberChange] = {}
        self.lacking: set[int] = set()

    async def count(
        self,
        loaded: Loaded | None,
        covered: Mapping[int, int],
        late: Mapping[int, ComingMembers],
        *,
        has_both_worlds: bool,
        rows: bool,
    ) -> None:
        """Everything about subscriptions that were in force when loading began."""
        self.lacking = {number for number, one in late.items() if one.lacks_references}
        self.lacking |= await self._lacking_covered(loaded, covered, rows=rows)
        changes: dict[int, MemberChange] = {}
        if self.told is not None:
            changes = {number: one for number, one in self.told.items() if number in self.in_both}
        elif loaded is not None and loaded.compared is not None:
            gained, lost = (column.tolist() for column in loaded.compared)
            for place, number in enumerate(sorted(covered)):
                if number in self.in_both:
                    lacks = number in self.lacking
                    changes[number] = MemberChange(gained[place], lost[place], lacks)
        elif self.is_other_version:
            changes = dict.fromkeys(self.in_both, MemberChange(None, None))
        if self.is_other_version:
            rest = (set(self._listening()) & self._own.keys()) - self.in_both
            changes |= await self._resolved(rest, self._own, has_both_worlds=has_both_worlds)
        self.lacking |= {number for number, one in changes.items() if one.lacks_references}
        self.changes = worth_telling(changes, self._lacked)

    async def count_arrivals(self, present: Mapping[int, Subscription]) -> None:
        """The same about those that came while the new world was being loaded."""
        arrived = (set(self._listening()) & present.keys()) - self._own.keys()
        changes = await self._resolved(arrived, present, has_both_worlds=True)
        self.lacking |= {number for number, one in changes.items() if one.lacks_references}
        self.changes |= worth_telling(changes, ())

    async def _resolved(
        self, numbers: set[int], known: Mapping[int, Subscription], *, has_both_worlds: bool
    ) -> dict[int, MemberChange]:
        if not has_both_worlds:
            # Without the world of before, as after a restart, there is nothing to count by.
            return dict.fromkeys(numbers, MemberChange(None, None))
        found: dict[int, MemberChange] = {}
        ordered = sorted(numbers)
        for start in range(0, len(ordered), COUNTED_AT_ONCE):
            some = ordered[start : start + COUNTED_AT_ONCE]
            texts = [known[number].terms.descriptor or "" for number in some]
            counted = await asyncio.gather(
                *(resolved_change(self._resolver, text) for text in texts)
            )
            found |= dict(zip(some, counted, strict=True))
        return found

    async def _lacking_covered(
        self, loaded: Loaded | None, covered: Mapping[int, int], *, rows: bool
    ) -> set[int]:
        """Those of the generation without a reference: as the push said, or as it seems."""
        if self.is_same_generation:
            return self._lacked & covered.keys()
        # Of what the generation holds for the first time the push says nothing.
        in_doubt = covered.keys() - self.in_both
        if self.lacking_told is None:
            in_doubt = set(covered)
        if loaded is not None and rows:
            named = set(loaded.slots.tolist())
            in_doubt = {number for number in in_doubt if covered[number] not in named}
        elif not self.is_other_version:
            # Where members are is not known here; what lacked its references lacks them on.
            in_doubt &= self._lacked
        found = (self.lacking_told or set()) & covered.keys()
        for number in in_doubt - found:
            if await without_references(self._resolver, self._own[number].terms.descriptor or ""):
                found.add(number)
        return found
