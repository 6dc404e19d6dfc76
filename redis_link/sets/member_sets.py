"""Membership sets as arrays, in the order in which Redis takes them best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redis_link.sets.tally import Int64s, Tally, tally_of_sets
from schemas.redis_keys import SHARD_COUNT

KEY_BITS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """``sub_ids[offsets[i]:offsets[i + 1]]`` are those of ``peids[i]``.

    Out of Redis they come in no order, and a peid whose subIds were all removed since may be
    there with none.
    """

    peids: Int64s
    offsets: Int64s
    sub_ids: Int64s

    def tally(self) -> Tally:
        """Counts and checksum; peids without subIds do not count."""
        return tally_of_sets(self.peids, self.offsets, self.sub_ids)


def members_of(peids: Int64s, sub_ids: Int64s) -> Members:
    """Pairs in any order, repeated or not, as sets by shard and peid; subIds ascend in each.

    Ascending subIds are appended to Redis' integer sets; in any other order each one would be
    moved into the middle. A subscription that selects an entity in several stages has several
    rows for one pair.

    numpy sorts single integers several times faster than it finds an order: so the rank of the
    peid and the subId are put into one.
    """
    entities, ranks = _ranked(peids, by_shard=True)
    width = int(sub_ids.max(initial=0)).bit_length()
    numbers = None
    if width + len(entities).bit_length() > KEY_BITS:
        numbers, sub_ids = _ranked(sub_ids, by_shard=False)
        width = len(numbers).bit_length()
    keys = ranks << np.uint64(width)
    keys |= sub_ids.astype(np.uint64)
    keys.sort()
    first = np.empty(len(keys), np.bool_)
    first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    if not first.all():
        keys = keys[first]
    bounds = np.arange(len(entities) + 1, dtype=np.uint64) << np.uint64(width)
    offsets = np.searchsorted(keys, bounds)
    members = (keys & np.uint64((1 << width) - 1)).astype(np.int64)
    return Members(entities, offsets, members if numbers is None else numbers[members])


def _ranked(values: Int64s, *, by_shard: bool) -> tuple[Int64s, pa.UInt64Array]:
    """The distinct values in order, and the place of each value among them."""
    coded = pc.dictionary_encode(pa.array(values))
    distinct: Int64s = coded.dictionary.to_numpy()
    order = np.lexsort((distinct, distinct % SHARD_COUNT)) if by_shard else np.argsort(distinct)
    places = np.empty(len(distinct), np.uint64)
    places[order] = np.arange(len(distinct), dtype=np.uint64)
    return distinct[order], places[coded.indices.to_numpy()]
