"""Counts what a generation would take away from the one in force, before it is switched to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from redis_link.connection.client import RedisClient
from redis_link.generation.generation_store import current_generation
from redis_link.sets.pair_arrays import Int64s
from redis_link.sets.set_reader import read_index, read_sizes
from schemas.errors import REPAIR_ADVICE, DamagedRedisError, GenerationError, RedisLinkError
from schemas.generation import GenerationFacts
from schemas.redis_keys import SHARD_COUNT

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
