"""Compares the results of two rebuilds: by subscription, and as pairs in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redis_link.generation.generation_store import SubscriptionChanges
from redis_link.sets.pair_arrays import Int64s, Pairs
from spatial_udfs.incremental.member_rows import MemberRows, differences
from spatial_udfs.position_sets import as_set
from world.memberships.resolved_sets import ResolvedSets, written_out

# A key has at most this many bits.
KEY_BITS: Final = 63


@dataclass(frozen=True, slots=True, eq=False)
class _Numbered:
    """Both results with the same numbers for neighborhoods and entities.

    A key is ``set * span + entity``; the entity is its peid, or its place among ``peids`` where
    peids are too large for that.
    """

    old_keys: Int64s
    new_keys: Int64s
    span: int
    peids: Int64s | None
    old_set_of: Int64s
    new_set_of: Int64s
    set_count: int

    def set_of_keys(self, keys: Int64s) -> Int64s:
        return keys // self.span

    def peid_of_keys(self, keys: Int64s) -> Int64s:
        entities = keys % self.span
        return entities if self.peids is None else self.peids[entities]


class SetChanges:
    """The differences between an earlier and a later result, of any two versions."""

    def __init__(self, old: ResolvedSets, new: ResolvedSets) -> None:
        self._old, self._new = old, new
        self._numbered = numbered = _numbered(old, new)
        self._lost, self._gained = differences(numbered.old_keys, numbered.new_keys)
        self._stays = np.isin(new.sub_ids, old.sub_ids, assume_unique=True)
        self._goes = ~np.isin(old.sub_ids, new.sub_ids, assume_unique=True)

    def by_subscription(self) -> SubscriptionChanges:
        """Return the subscriptions of both results whose members or references changed."""
        numbered = self._numbered
        own_sets = numbered.new_set_of[self._stays]
        gained = self._count(self._gained)[own_sets]
        lost = self._count(self._lost)[own_sets]
        lacking = ~self._new.resolved[self._new.set_of[self._stays]]
        shown = (gained > 0) | (lost > 0) | lacking
        return SubscriptionChanges(
            self._new.sub_ids[self._stays][shown], gained[shown], lost[shown], lacking[shown]
        )

    def pairs_to_add(self) -> Pairs:
        """Return the pairs that Redis lacks."""
        fresh = ~self._stays
        sub_ids, set_of = self._new.sub_ids, self._numbered.new_set_of
        return _both(
            self._pairs(self._gained, sub_ids[self._stays], set_of[self._stays]),
            self._pairs(self._numbered.new_keys, sub_ids[fresh], set_of[fresh]),
        )

    def pairs_to_remove(self) -> Pairs:
        """Return the pairs that Redis holds and should not."""
        new, old, numbered = self._new, self._old, self._numbered
        return _both(
            self._pairs(self._lost, new.sub_ids[self._stays], numbered.new_set_of[self._stays]),
            self._pairs(
                numbered.old_keys, old.sub_ids[self._goes], numbered.old_set_of[self._goes]
            ),
        )

    def changed_pairs(self) -> int:
        """Return how many pairs have to be added or removed, without making them."""
        numbered = self._numbered
        differing = self._count(self._gained) + self._count(self._lost)
        staying = differing[numbered.new_set_of[self._stays]].sum()
        fresh = self._count(numbered.new_keys)[numbered.new_set_of[~self._stays]].sum()
        going = self._count(numbered.old_keys)[numbered.old_set_of[self._goes]].sum()
        return int(staying + fresh + going)

    def new_pairs(self) -> int:
        """Return the number of pairs of the later result."""
        numbered = self._numbered
        return int(self._count(numbered.new_keys)[numbered.new_set_of].sum())

    def _count(self, keys: Int64s) -> Int64s:
        return np.bincount(self._numbered.set_of_keys(keys), minlength=self._numbered.set_count)

    def _pairs(self, keys: Int64s, sub_ids: Int64s, set_of: Int64s) -> Pairs:
        """Return the entities of these keys with every given subscription of their neighborhood."""
        peids = self._numbered.peid_of_keys(keys)
        blocks = [
            (peids[places], sub_ids[subscriptions])
            for subscriptions, places in written_out(self._numbered.set_of_keys(keys), set_of)
        ]
        return _both(*blocks)


def _numbered(old: ResolvedSets, new: ResolvedSets) -> _Numbered:
    hashes = {name: number for number, name in enumerate(sorted({*old.hashes, *new.hashes}))}
    old_numbers = np.array([hashes[name] for name in old.hashes], np.int64)
    new_numbers = np.array([hashes[name] for name in new.hashes], np.int64)
    old_rows, new_rows = (each.rows.visible() for each in (old, new))
    old_entities, new_entities, peids = old_rows.peids, new_rows.peids, None
    span = 1 + max(int(rows.peids.max(initial=0)) for rows in (old_rows, new_rows))
    if (span * len(hashes)).bit_length() > KEY_BITS:
        peids, places = _ranks(np.concatenate([old_rows.peids, new_rows.peids]))
        old_entities, new_entities = places[: len(old_rows)], places[len(old_rows) :]
        span = max(len(peids), 1)

    def keys(numbers: Int64s, rows: MemberRows, entities: Int64s) -> Int64s:
        # A neighborhood may show an entity in several stages: one pair.
        return as_set(numbers[rows.sets] * span + entities)

    return _Numbered(
        old_keys=keys(old_numbers, old_rows, old_entities),
        new_keys=keys(new_numbers, new_rows, new_entities),
        span=span,
        peids=peids,
        old_set_of=old_numbers[old.set_of],
        new_set_of=new_numbers[new.set_of],
        set_count=len(hashes),
    )


def _ranks(peids: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct peids, ascending, and the place of each given one among them."""
    coded = pc.dictionary_encode(pa.array(peids))
    distinct: Int64s = coded.dictionary.to_numpy()
    order = np.argsort(distinct)
    ranks = np.empty(len(distinct), np.int64)
    ranks[order] = np.arange(len(distinct))
    return distinct[order], ranks[coded.indices.to_numpy()]


def _both(*parts: Pairs) -> Pairs:
    empty = np.empty(0, np.int64)
    return (
        np.concatenate([empty, *(peids for peids, _ in parts)]),
        np.concatenate([empty, *(sub_ids for _, sub_ids in parts)]),
    )
