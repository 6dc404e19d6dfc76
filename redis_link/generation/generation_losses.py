"""Counts what a new generation lacks of the one in force.

Only subscriptions that both can have are compared: one that has ended since takes its members with
it, and one that began later has none to lose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from redis_link.connection.client import RedisClient
from redis_link.registry.registry_reader import registered_among
from redis_link.sets.pair_arrays import Int64s, Members, Pairs, Tally, group_starts
from redis_link.sets.set_reader import read_index, read_sets, read_sizes
from schemas.errors import REPAIR_ADVICE, GenerationError, RedisLinkError
from schemas.generation import GenerationFacts, RegistryCoverage
from schemas.redis_keys import SHARD_COUNT

SHARDS_AT_ONCE: Final = 32
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Losses:
    """Entities and members of the old generation, and how many of them the new one lacks.

    Only entities that are in a neighborhood count. ``members_gone`` is counted by the size of each
    entity's set: of two subscriptions one may gain an entity that the other one loses.
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


@dataclass(frozen=True, slots=True)
class LossBase:
    """The generation that a new one is compared with.

    Both have the registered subscriptions up to ``up_to``, as far as these have not ended. Either
    may have some later ones, which came while it was resolved. None where the registry does not
    tell, as for subscriptions of a file: then all are compared.
    """

    generation: int
    up_to: int | None


def loss_base(old: GenerationFacts, coverage: RegistryCoverage) -> LossBase:
    """Return what a generation of some subscriptions is compared with."""
    is_same = bool(coverage.registry) and coverage.registry == old.coverage.registry
    return LossBase(old.generation, min(old.coverage.up_to, coverage.up_to) if is_same else None)


def read_back(
    client: RedisClient, generation: int, shards: Iterable[int], base: LossBase | None
) -> tuple[Tally, Losses]:
    """Return the tally of some shards, and what they lack of ``base``; a part at a time."""
    counter = None if base is None else LossCounter(client, base)
    remaining, tally, losses = iter(shards), Tally(), Losses()
    while chosen := list(islice(remaining, SHARDS_AT_ONCE)):
        members = read_sets(client, generation, *read_index(client, generation, chosen))
        tally += members.tally()
        if counter is not None:
            losses += counter.count(chosen, members)
    return tally, losses


class LossCounter:
    """Compares sets of a new generation with those of ``base``."""

    def __init__(self, client: RedisClient, base: LossBase) -> None:
        self._client = client
        self._base = base
        # SubIds that the registry was asked for, and those of them that have ended.
        self._asked: Int64s = np.empty(0, np.int64)
        self._ended: Int64s = np.empty(0, np.int64)

    def count(self, shards: list[int], members: Members) -> Losses:
        """Return what all sets of some shards, the ``members``, lack.

        An old generation that is damaged counts as far as it can be read: it must not keep a new
        one from taking its place.
        """
        try:
            of_shard, peids = read_index(self._client, self._base.generation, shards)
            before = read_sizes(self._client, self._base.generation, of_shard, peids)
            after = _aligned(members.peids, self._sizes(members), peids)
            if (up_to := self._base.up_to) is not None:
                fewer = np.flatnonzero(after < before)
                sets = read_sets(self._client, self._base.generation, of_shard[fewer], peids[fewer])
                before[fewer] -= self._others(sets, up_to)
                # One that ended after it was resolved is in both generations, and counts in none.
                ended = _counted(members, np.isin(members.sub_ids, self._ended))
                after[fewer] -= _aligned(members.peids, ended, peids[fewer])
        except (GenerationError, RedisLinkError) as error:
            if _is_damage(error):
                return Losses()
            raise
        return _losses(before, after)

    def count_changes(
        self, base: GenerationFacts, new: int, added: Pairs, removed: Pairs
    ) -> Losses:
        """Return the losses of a copy of ``base`` with some pairs more and some pairs less.

        The pairs stand shard by shard.
        """
        peids, sub_ids = removed
        starts = group_starts(peids)
        touched = peids[starts]
        of_shard = touched % SHARD_COUNT
        held = read_sizes(self._client, base.generation, of_shard, touched)
        before = held.copy()
        after = read_sizes(self._client, new, of_shard, touched)
        if (up_to := self._base.up_to) is not None:
            sets = Members(touched, np.append(starts, len(peids)), sub_ids)
            before -= self._others(sets, up_to)
            later, counts = np.unique(added[0][added[1] > up_to], return_counts=True)
            after -= _aligned(later, counts, touched)
        found = _losses(before, after)
        return Losses(
            entities=base.peids - int(np.count_nonzero(held)) + found.entities,
            entities_gone=found.entities_gone,
            members=base.pairs - int(held.sum()) + found.members,
            members_gone=found.members_gone,
        )

    def _sizes(self, members: Members) -> Int64s:
        """Return how many members of each set the old generation can have had."""
        if self._base.up_to is None:
            return np.diff(members.offsets)
        return _counted(members, members.sub_ids <= self._base.up_to)

    def _others(self, sets: Members, up_to: int) -> Int64s:
        """Return how many members of each set are of subscriptions that both need not have."""
        later = sets.sub_ids > up_to
        asked = np.setdiff1d(sets.sub_ids[~later], self._asked)
        if len(asked):
            ended = asked[~registered_among(self._client, asked)]
            self._asked = np.union1d(self._asked, asked)
            self._ended = np.union1d(self._ended, ended)
        return _counted(sets, later | np.isin(sets.sub_ids, self._ended))


def _counted(sets: Members, chosen: Bools) -> Int64s:
    """Return how many chosen members each set has."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(chosen, dtype=np.int64)])
    counts: Int64s = np.diff(sums[sets.offsets])
    return counts


def _aligned(known: Int64s, numbers: Int64s, asked: Int64s) -> Int64s:
    """Return the number of each asked peid, 0 for one that is not known."""
    order = np.argsort(known)
    if not len(order):
        return np.zeros(len(asked), np.int64)
    places = np.searchsorted(known, asked, sorter=order)
    places = order[np.minimum(places, len(order) - 1)]
    return np.where(known[places] == asked, numbers[places], 0)


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
