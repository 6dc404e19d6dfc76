"""Arrays of (peid, subId) pairs: in the order in which Redis takes them best, and by shard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from redis_link.tally import Int64s
from schemas.redis_keys import SHARD_COUNT

_DIGIT: Final = 1 << 16


def sorted_distinct(peids: Int64s, sub_ids: Int64s) -> tuple[Int64s, Int64s]:
    """The pairs by shard, peid and subId, each once.

    Ascending subIds are appended to Redis' integer sets; in any other order each one would be
    moved into the middle. A subscription that selects an entity in several stages has several
    rows for one pair.
    """
    order = _order(peids, sub_ids)
    peids, sub_ids = peids[order], sub_ids[order]
    if not len(peids):
        return peids, sub_ids
    first = np.empty(len(peids), dtype=bool)
    first[0] = True
    np.not_equal(peids[1:], peids[:-1], out=first[1:])
    first[1:] |= sub_ids[1:] != sub_ids[:-1]
    return (peids, sub_ids) if first.all() else (peids[first], sub_ids[first])


def group_starts(values: Int64s) -> Int64s:
    """Where each value begins in an array in which equal ones stand together."""
    if not len(values):
        return np.empty(0, np.int64)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([np.zeros(1, np.int64), changes])


def by_shard(peids: Int64s, sub_ids: Int64s) -> Iterator[tuple[int, Int64s, Int64s]]:
    """The pairs of each shard that has any, in no order within the shard."""
    shards = (peids % SHARD_COUNT).astype(np.uint16)
    order = np.argsort(shards, kind="stable")
    shards, peids, sub_ids = shards[order], peids[order], sub_ids[order]
    bounds = np.searchsorted(shards, np.arange(SHARD_COUNT + 1))
    for shard in np.flatnonzero(np.diff(bounds)).tolist():
        part = slice(bounds[shard], bounds[shard + 1])
        yield shard, peids[part], sub_ids[part]


def _order(peids: Int64s, sub_ids: Int64s) -> NDArray[np.intp]:
    """Positions of the pairs by (shard, peid, subId).

    numpy sorts 16-bit keys by radix, in linear time. So subIds go digit by digit, lowest
    first, and peids, whose digits are many, by their rank: five times faster than lexsort.
    """
    order: NDArray[np.intp] = np.arange(len(sub_ids))
    highest = int(sub_ids.max(initial=0))
    for shift in range(0, highest.bit_length(), 16):
        digit = ((sub_ids[order] >> shift) % _DIGIT).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    ranks = _ranks(peids)
    return order[np.argsort(ranks[order], kind="stable")]


def _ranks(peids: Int64s) -> NDArray[np.uint16] | NDArray[np.int64]:
    """The place of each peid among the distinct ones by shard, in 16 bits when these suffice."""
    coded = pc.dictionary_encode(pa.array(peids))
    distinct: Int64s = coded.dictionary.to_numpy()
    indices: NDArray[np.int32] = coded.indices.to_numpy()
    places = np.empty(len(distinct), np.int64)
    places[np.lexsort((distinct, distinct % SHARD_COUNT))] = np.arange(len(distinct))
    if len(distinct) <= _DIGIT:
        return places.astype(np.uint16)[indices]
    return places[indices]
