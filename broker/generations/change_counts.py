"""What a switch changes for each subscription: read beside the generation, or counted.

A push says it in ``spaps:{control}:changes:N`` for what both generations hold. Subscriptions
that one of them does not hold are resolved on both worlds. When the push said nothing, the
loader compares both generations while it reads the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from broker.core.world_changes import MemberChange
from broker.resolver.live_resolver import ComingMembers
from broker.resolver.resolver_answers import NeighborhoodRefusedError, VersionResolution
from redis_link.connection.redis_router import RedisRouter
from redis_link.generation.generation_store import unpacked_changes
from schemas.errors import GenerationError, RedisLinkError
from schemas.generation import GenerationFacts
from schemas.redis_keys import generation_changes_key, generations_key
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

# Stands for the time before the first generation: everything is resolved live.
NO_GENERATION: Final = 0


@dataclass(frozen=True, slots=True)
class AdoptedGeneration:
    """A generation that is, or was, in force here: which one, and the last subId it holds.

    ``generation`` is NO_GENERATION before the first one; then ``up_to`` is -1.
    """

    generation: int
    token: str
    version: int
    up_to: int


@dataclass(frozen=True, slots=True)
class LastNotified:
    """How far subscribers know: the generation, and which of them lacked their references."""

    adopted: AdoptedGeneration
    lacking: frozenset[int] = frozenset()


class TwoWorlds(Protocol):
    """The live resolver while another generation is being loaded."""

    async def resolve_in_force(self, descriptor: str) -> VersionResolution:
        """Members in the world in force."""

    async def resolve_coming(self, descriptor: str) -> ComingMembers:
        """Members in the world that comes, or in the one in force when it stays."""


@dataclass(frozen=True, slots=True)
class PushedChanges:
    """By subId what all switches since a generation changed; None: one of them did not say."""

    changes: dict[int, MemberChange] | None = None
    # Whether that generation may still be there, to be compared with.
    can_compare: bool = False


async def told_by_pushes(
    wires: RedisRouter, before: AdoptedGeneration, facts: GenerationFacts, wanted: Collection[int]
) -> PushedChanges:
    """Read what was left beside the generations about the wanted subIds."""
    try:
        numbers = await _switches_since(wires, before, facts)
        if numbers is None:
            return PushedChanges()
        total: dict[int, MemberChange] = {}
        for number in numbers:
            key = generation_changes_key(number)
            content = await wires.ask(key, "GET", key)
            if content is None:
                return PushedChanges(can_compare=True)
            # There is a row for every subscription that changed: not on the event loop.
            total = await asyncio.to_thread(_with_switch, total, content, wanted)
    except (RedisLinkError, GenerationError) as error:
        log.warning("what the generation changed is not known: %s", error)
        return PushedChanges()
    return PushedChanges(total)


async def _switches_since(
    wires: RedisRouter, before: AdoptedGeneration, facts: GenerationFacts
) -> list[int] | None:
    """The generations that came into force after ``before``, up to and with the present one."""
    found = await wires.ask(generations_key(), "HGETALL", generations_key())
    known = {
        int(number): GenerationFacts.from_json(int(number), text)
        for number, text in zip(found[::2], found[1::2], strict=True)
    }
    then = known.get(before.generation)
    # As long as its facts are there, those of all that followed it are there too.
    if then is None or then.token != before.token:
        return None
    return [
        number
        for number, one in sorted(known.items())
        if before.generation < number <= facts.generation and one.completed_at is not None
    ]


def _with_switch(
    before: Mapping[int, MemberChange], content: bytes, wanted: Collection[int]
) -> dict[int, MemberChange]:
    """One more switch after some."""
    changes = unpacked_changes(content)
    chosen = np.isin(changes.sub_ids, np.fromiter(wanted, np.int64, len(wanted)))
    total = {
        # Those that still lack their references are listed each time.
        sub_id: replace(change, lacks_references=False)
        for sub_id, change in before.items()
    }
    columns = zip(
        changes.sub_ids[chosen].tolist(), changes.gained[chosen].tolist(),
        changes.lost[chosen].tolist(), changes.lacks_references[chosen].tolist(), strict=True,
    )  # fmt: skip
    for sub_id, gained, lost, lacks in columns:
        earlier = before.get(sub_id, MemberChange(0, 0))
        total[sub_id] = MemberChange(
            gained + (earlier.gained or 0), lost + (earlier.lost or 0), lacks
        )
    return total


def difference(old: Int64s, new: Int64s) -> tuple[int, int]:
    """Members gained and lost; both are distinct."""
    common = len(np.intersect1d(old, new, assume_unique=True))
    return len(new) - common, len(old) - common


async def resolved_change(resolver: TwoWorlds, descriptor: str) -> MemberChange:
    """The change of a subscription that is resolved live on both worlds."""
    try:
        new = await resolver.resolve_coming(descriptor)
    except NeighborhoodRefusedError:
        return MemberChange(None, None)
    try:
        old = await resolver.resolve_in_force(descriptor)
    except NeighborhoodRefusedError as error:
        # Without a reference it had no members.
        gained = len(new.peids) if error.lacks_references else None
        return MemberChange(gained, None if gained is None else 0, new.lacks_references)
    gained, lost = await asyncio.to_thread(difference, old.peids, new.peids)
    return MemberChange(gained, lost, new.lacks_references)


async def lacking_by_push(wires: RedisRouter, generation: int) -> set[int] | None:
    """The subIds of which no reference exists, as the push said; None when it did not."""
    key = generation_changes_key(generation)
    try:
        content = await wires.ask(key, "GET", key)
        if content is None:
            return None
        changes = unpacked_changes(content)
    except (RedisLinkError, GenerationError):
        return None
    return set(changes.sub_ids[changes.lacks_references].tolist())


async def without_references(resolver: TwoWorlds, descriptor: str) -> bool:
    """Whether no reference of a subscription exists in the world that comes."""
    try:
        return (await resolver.resolve_coming(descriptor)).lacks_references
    except NeighborhoodRefusedError:
        return False


def worth_telling(
    changes: Mapping[int, MemberChange], lacked: Iterable[int]
) -> dict[int, MemberChange]:
    """Without those that are as they were; ``lacked`` are those without references before."""
    had_none = set(lacked)
    return {
        sub_id: one
        for sub_id, one in changes.items()
        if one.gained is None
        or one.gained
        or one.lost
        or one.lacks_references != (sub_id in had_none)
    }
