"""Read generations from Redis, and what a switch changes for each subscription.

A push stores the changes of subscriptions in both generations in ``spaps:{control}:changes:N``.
Subscriptions that only one of the two holds are resolved on both worlds. When the push stored no
changes, the loader compares both generations while it reads the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from broker.core.world_changes import MemberChange
from broker.resolver.live_resolver import LiveResolver
from broker.resolver.resolver_requests import NeighborhoodRefusedError
from redis_link.connection.failures import is_wrong_type
from redis_link.connection.redis_connection import RedisReplyError
from redis_link.connection.redis_router import RedisRouter
from redis_link.generation.generation_store import unpacked_changes
from schemas.errors import DamagedRedisError, GenerationError, RedisLinkError
from schemas.generation import GenerationFacts
from schemas.redis_keys import (
    current_generation_key,
    generation_changes_key,
    generations_key,
    registry_id_key,
)
from spatial_udfs.entity_table import Int64s

log = logging.getLogger(__name__)

# The number before the first generation: every subscription is resolved live.
NO_GENERATION: Final = 0


@dataclass(frozen=True, slots=True)
class AdoptedGeneration:
    """A generation that is or was in force in this broker, and the last subId that it holds.

    ``generation`` is NO_GENERATION before the first one; then ``up_to`` is -1.
    """

    generation: int
    token: str
    version: int
    up_to: int


@dataclass(frozen=True, slots=True)
class LastNotified:
    """The generation that subscribers were last notified of, and who lacked references then."""

    adopted: AdoptedGeneration
    lacking: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SwitchOutcome:
    """What came into force at a switch, and the changes that it made."""

    adopted: AdoptedGeneration | None
    late: int
    changes: dict[int, MemberChange]
    # SubIds none of whose references exists now.
    lacking: set[int]
    # Slots of neighborhoods whose members are not known. True: the resolver did not answer;
    # False: it failed on this neighborhood.
    waiting: dict[int, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PushedChanges:
    """The changes by subId of all switches since a generation; None when one push stored none."""

    changes: dict[int, MemberChange] | None = None
    # Whether that generation may still be in Redis, for a comparison.
    can_compare: bool = False


async def generation_in_force(router: RedisRouter) -> GenerationFacts | None:
    """Return the generation in force; DamagedRedisError when Redis has no valid entry for it."""
    try:
        key = current_generation_key()
        number = await router.ask(key, "GET", key)
        if number is None:
            return None
        if not number.isdigit():
            raise DamagedRedisError("Redis: the pointer to the generation in force is damaged")
        facts = await router.ask(generations_key(), "HGET", generations_key(), number)
    except RedisReplyError as error:
        if is_wrong_type(error):
            raise DamagedRedisError(f"Redis: {error}") from error
        raise
    if facts is None:
        raise DamagedRedisError(f"generation {int(number)} is in force, and its facts are gone")
    return GenerationFacts.from_json(int(number), facts)


async def covered_up_to(router: RedisRouter, facts: GenerationFacts | None) -> int:
    """Return the last subId that a generation holds; -1 when it is of another registry."""
    if facts is None:
        return -1
    registry = await router.ask(registry_id_key(), "GET", registry_id_key())
    if registry is None or facts.coverage.registry != registry.decode():
        return -1
    return facts.coverage.up_to


async def read_pushed_changes(
    router: RedisRouter, before: AdoptedGeneration, facts: GenerationFacts, wanted: Collection[int]
) -> PushedChanges:
    """Return the changes of the wanted subIds that pushes stored beside their generations."""
    try:
        numbers = await _switches_since(router, before, facts)
        if numbers is None:
            return PushedChanges()
        total: dict[int, MemberChange] = {}
        for number in numbers:
            key = generation_changes_key(number)
            content = await router.ask(key, "GET", key)
            if content is None:
                return PushedChanges(can_compare=True)
            # One row for each changed subscription is too much work for the event loop.
            total = await asyncio.to_thread(_with_switch, total, content, wanted)
    except (RedisLinkError, GenerationError) as error:
        log.warning("the changes of the generation are not known: %s", error)
        return PushedChanges()
    return PushedChanges(total)


async def _switches_since(
    router: RedisRouter, before: AdoptedGeneration, facts: GenerationFacts
) -> list[int] | None:
    """Return the generations that came into force after ``before``, with the present one."""
    found = await router.ask(generations_key(), "HGETALL", generations_key())
    known = {
        int(number): GenerationFacts.from_json(int(number), text)
        for number, text in zip(found[::2], found[1::2], strict=True)
    }
    then = known.get(before.generation)
    # While the facts of this generation exist, those of all later ones exist too.
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
    """Return ``before`` with the changes of one more switch added."""
    changes = unpacked_changes(content)
    chosen = np.isin(changes.sub_ids, np.fromiter(wanted, np.int64, len(wanted)))
    total = {
        # A subscription that still lacks its references is listed in every push.
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
    """Return the numbers of members gained and lost; both arrays are distinct."""
    common = len(np.intersect1d(old, new, assume_unique=True))
    return len(new) - common, len(old) - common


async def resolved_change(resolver: LiveResolver, descriptor: str) -> MemberChange:
    """Resolve a subscription on both worlds and return the difference of its members."""
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


async def lacking_by_push(router: RedisRouter, generation: int) -> set[int] | None:
    """Return the subIds without an existing reference, as pushed; None when nothing was pushed."""
    key = generation_changes_key(generation)
    try:
        content = await router.ask(key, "GET", key)
        if content is None:
            return None
        changes = unpacked_changes(content)
    except (RedisLinkError, GenerationError):
        return None
    return set(changes.sub_ids[changes.lacks_references].tolist())


async def without_references(resolver: LiveResolver, descriptor: str) -> bool:
    """Return whether no reference of a subscription exists in the coming world."""
    try:
        return (await resolver.resolve_coming(descriptor)).lacks_references
    except NeighborhoodRefusedError:
        return False


def worth_notifying(
    changes: Mapping[int, MemberChange], lacked: Iterable[int]
) -> dict[int, MemberChange]:
    """Return only real changes; ``lacked`` are the subIds that lacked references before."""
    had_none = set(lacked)
    return {
        sub_id: one
        for sub_id, one in changes.items()
        if one.gained is None
        or one.gained
        or one.lost
        or one.lacks_references != (sub_id in had_none)
    }
