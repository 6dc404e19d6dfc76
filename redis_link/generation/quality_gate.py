"""Counts what a generation would take away, and refuses to switch when that is too much."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation
from redis_link.sets.pair_arrays import Int64s
from redis_link.sets.set_reader import read_index, read_sizes
from schemas.errors import (
    REPAIR_ADVICE,
    DamagedRedisError,
    GenerationError,
    QualityError,
    RedisLinkError,
    SettingsError,
)
from schemas.generation import GenerationFacts
from schemas.redis_keys import SHARD_COUNT
from schemas.settings import QualitySettings

SHARDS_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Losses:
    """Entities and members of the old generation, and how many of them the new one lacks.

    Only entities that are in a neighborhood count. ``members_gone`` is counted by the size of each
    entity's set: a subscription that takes the place of another one is not seen.
    """

    entities: int = 0
    entities_gone: int = 0
    members: int = 0
    members_gone: int = 0

    def __add__(self, other: Losses) -> Losses:
        """Return the losses of both parts together."""
        return Losses(
            self.entities + other.entities,
            self.entities_gone + other.entities_gone,
            self.members + other.members,
            self.members_gone + other.members_gone,
        )


def generation_in_force(client: RedisClient) -> GenerationFacts | None:
    """Return the generation in force; None where there is none, or none that can be read."""
    try:
        return current_generation(client)
    except DamagedRedisError:
        return None


def count_losses(client: RedisClient, old: int, new: int, shards: Iterable[int]) -> Losses:
    """Return what generation ``new`` lacks of generation ``old`` in these shards.

    An old generation that is damaged counts as far as it can be read: it must not keep a new one
    from taking its place.
    """
    remaining, losses = iter(shards), Losses()
    while chosen := list(islice(remaining, SHARDS_AT_ONCE)):
        try:
            of_shard, peids = read_index(client, old, chosen)
            before = read_sizes(client, old, of_shard, peids)
        except (GenerationError, RedisLinkError) as error:
            if _is_damage(error):
                continue
            raise
        losses += _losses(before, read_sizes(client, new, of_shard, peids))
    return losses


def losses_of_changes(
    client: RedisClient, base: GenerationFacts, new: int, removed: Int64s
) -> Losses:
    """Return the losses of a copy of ``base`` from which members of some entities were removed.

    ``removed`` are these entities, shard by shard.
    """
    of_shard, peids = removed % SHARD_COUNT, removed
    before = read_sizes(client, base.generation, of_shard, peids)
    found = _losses(before, read_sizes(client, new, of_shard, peids))
    return replace(found, entities=base.peids, members=base.pairs)


def _is_damage(error: GenerationError | RedisLinkError) -> bool:
    """Return whether the error is about content of Redis, and not about the way to it."""
    return isinstance(error, GenerationError) or str(error).endswith(REPAIR_ADVICE)


def _losses(before: Int64s, after: Int64s) -> Losses:
    held = before > 0
    return Losses(
        entities=int(np.count_nonzero(held)),
        entities_gone=int(np.count_nonzero(held & (after == 0))),
        members=int(before.sum()),
        members_gone=int(np.maximum(before - after, 0).sum()),
    )


SWITCH_ANYWAY: Final = "--switch-anyway"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, in words, and the setting that limits it."""

    setting: str
    what: str
    part: int
    whole: int

    def text(self, limit: float) -> str:
        """Return the share with its numbers."""
        share = f"{self.part / self.whole:.1%}, allowed {limit:.1%}"
        return f"{self.part:,} of {self.whole:,} {self.what} ({share})"


@dataclass(frozen=True, slots=True)
class QualityGate:
    """The limits of one push or rebuild; ``switch_anyway`` turns a refusal into a remark."""

    limits: QualitySettings
    switch_anyway: bool = False

    def check_world(self, entities: int, gone: int, say: Callable[[str], None]) -> None:
        """Refuse a world version that lacks too many entities of the one in force."""
        what = "entities of the world would be gone"
        self._decide([Share("entities_gone", what, gone, entities)], say)

    def check_resolved(
        self, subscriptions: int, unresolved: int, say: Callable[[str], None]
    ) -> None:
        """Refuse a result in which too many subscriptions could not be resolved."""
        what = "subscriptions are unresolved"
        self._decide([Share("unresolved", what, unresolved, subscriptions)], say)

    def check_losses(self, losses: Losses, say: Callable[[str], None]) -> None:
        """Refuse a generation that lacks too much of the one in force."""
        entities = "entities with members would be gone"
        members = "members would be gone"
        shares = [
            Share("entities_gone", entities, losses.entities_gone, losses.entities),
            Share("members_gone", members, losses.members_gone, losses.members),
        ]
        self._decide(shares, say)

    def _decide(self, shares: list[Share], say: Callable[[str], None]) -> None:
        exceeded = [share for share in shares if self._is_exceeded(share)]
        if not exceeded:
            return
        told = "; ".join(share.text(self._limit(share)) for share in exceeded)
        if self.switch_anyway:
            say(f"note: {SWITCH_ANYWAY} was given: {told}")
            return
        names = " and ".join(f"quality.{share.setting}" for share in exceeded)
        raise QualityError(
            f"nothing was switched: {told}; if this is meant, start again with {SWITCH_ANYWAY} "
            f"or raise {names} in the settings"
        )

    def _is_exceeded(self, share: Share) -> bool:
        is_counted = share.whole >= max(self.limits.counted_from, 1)
        return is_counted and share.part > self._limit(share) * share.whole

    def _limit(self, share: Share) -> float:
        limit: float = getattr(self.limits, share.setting)
        return limit


def gate_of(limits: QualitySettings, *, switch_anyway: bool) -> QualityGate:
    """Return the gate of a command; a SettingsError names a limit that is no share."""
    for name in ("entities_gone", "members_gone", "unresolved"):
        share = getattr(limits, name)
        if not 0 <= share <= 1:
            raise SettingsError(f"quality.{name} must be a number from 0 to 1, not {share}")
    if limits.counted_from < 0:
        raise SettingsError("quality.counted_from must be a number of 0 or more")
    return QualityGate(limits, switch_anyway)
