"""Arrays of (peid, subId) pairs: grouped into sets and blocks of shards, counted and summed up.

The tally of pairs is the same from Delta, before sending and after reading back. Its checksum does
not depend on the order of pairs or on their split among tasks: each pair has a 64-bit hash, and
the upper and the lower 28 bits are added up. 34 billion pairs fit into a signed sum. The hash is
``xxhash64(peid, subId)`` of Spark SQL, so a generation can be checked against its Delta table
without any code of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas.redis_keys import SHARD_COUNT

Int64s: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
# peids, and the subIds that go with them.
Pairs: TypeAlias = tuple[Int64s, Int64s]

# How the two parts are cut out of a hash: ``hash >>> HIGH_SHIFT`` and ``hash & LOW_MASK``.
HIGH_SHIFT: Final = 36
LOW_MASK: Final = (1 << 28) - 1

# The five constants of XXH64, and the seed that Spark uses.
_PRIMES: Final = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_SEED: Final = np.uint64(42)
_WORD_BYTES: Final = np.uint64(8)
_HASHED_AT_ONCE: Final = 32_768


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts and sums of pairs; tallies of disjoint parts add up."""

    pairs: int = 0
    peids: int = 0
    high: int = 0
    low: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Return the tally of both parts together."""
        return Tally(
            self.pairs + other.pairs,
            self.peids + other.peids,
            self.high + other.high,
            self.low + other.low,
        )

    def __sub__(self, other: Tally) -> Tally:
        """Return the tally of the rest without a part."""
        return Tally(
            self.pairs - other.pairs,
            self.peids - other.peids,
            self.high - other.high,
            self.low - other.low,
        )

    def checksum(self) -> str:
        """Return the sums as text; equal sets of pairs have equal texts."""
        return f"{self.high:016x}{self.low:016x}"

    @classmethod
    def from_facts(cls, pairs: int, peids: int, checksum: str) -> Tally:
        """Return the tally that has these counts and this checksum."""
        return cls(pairs, peids, int(checksum[:16], 16), int(checksum[16:], 16))


def tally_of(peids: Int64s, sub_ids: Int64s, distinct_peids: int) -> Tally:
    """Return the tally of pairs given as two arrays of one length."""
    tally = Tally(0, distinct_peids)
    for part in _parts(len(peids)):
        tally += _sums(pair_hashes(peids[part], sub_ids[part]))
    return tally


def tally_of_sets(peids: Int64s, offsets: Int64s, sub_ids: Int64s) -> Tally:
    """Return the tally of sets ``sub_ids[offsets[i]:offsets[i + 1]]``; empty ones do not count."""
    sizes = np.diff(offsets)
    # Each peid is hashed once, however many subIds it has.
    seeds = np.repeat(_hash_words(peids, _SEED), sizes)
    tally = Tally(0, int(np.count_nonzero(sizes)))
    for part in _parts(len(sub_ids)):
        tally += _sums(_hash_words(sub_ids[part], seeds[part]))
    return tally


def pair_hashes(peids: Int64s, sub_ids: Int64s) -> Hashes:
    """Return ``xxhash64(peid, subId)``: the hash of one value is the seed of the next."""
    return _hash_words(sub_ids, _hash_words(peids, _SEED))


def _parts(length: int) -> Iterator[slice]:
    """Yield parts small enough to stay in the cache of a core from step to step of a hash."""
    return (slice(start, start + _HASHED_AT_ONCE) for start in range(0, length, _HASHED_AT_ONCE))


def _sums(hashes: Hashes) -> Tally:
    high = int((hashes >> np.uint64(HIGH_SHIFT)).sum(dtype=np.uint64))
    low = int((hashes & np.uint64(LOW_MASK)).sum(dtype=np.uint64))
    return Tally(len(hashes), 0, high, low)


def _hash_words(values: Int64s, seed: Hashes | np.uint64) -> Hashes:
    """Return XXH64 of single 64-bit words; the arithmetic wraps around on purpose."""
    p1, p2, p3, p4, p5 = _PRIMES
    with np.errstate(over="ignore"):
        hashes: Hashes = values.astype(np.uint64)
        hashes *= p2
        hashes = _rotated(hashes, 31)
        hashes *= p1
        hashes ^= seed + (p5 + _WORD_BYTES)
        hashes = _rotated(hashes, 27)
        hashes *= p1
        hashes += p4
        hashes ^= hashes >> np.uint64(33)
        hashes *= p2
        hashes ^= hashes >> np.uint64(29)
        hashes *= p3
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _rotated(words: Hashes, bits: int) -> Hashes:
    """Return the words rotated to the left; ``words`` is overwritten."""
    turned: Hashes = words >> np.uint64(64 - bits)
    words <<= np.uint64(bits)
    turned |= words
    return turned


KEY_BITS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Membership sets: ``sub_ids[offsets[i]:offsets[i + 1]]`` are those of ``peids[i]``.

    Redis gives the subIds of a set in no order. A peid of the index may have no subIds left.
    """

    peids: Int64s
    offsets: Int64s
    sub_ids: Int64s

    def tally(self) -> Tally:
        """Return counts and checksum; peids without subIds do not count."""
        return tally_of_sets(self.peids, self.offsets, self.sub_ids)


def members_of(peids: Int64s, sub_ids: Int64s) -> Members:
    """Group pairs into sets by shard and peid, with ascending subIds; repeated pairs count once.

    Redis appends ascending numbers to an integer set and has to move others into the middle. A
    subscription that selects an entity in several stages has several rows for one pair.
    """
    # numpy sorts single integers several times faster than it finds an order: so the rank of the
    # peid and the subId are put into one integer.
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
    """Return the distinct values in order, and the place of each value among them."""
    coded = pc.dictionary_encode(pa.array(values))
    distinct: Int64s = coded.dictionary.to_numpy()
    order = np.lexsort((distinct, distinct % SHARD_COUNT)) if by_shard else np.argsort(distinct)
    places = np.empty(len(distinct), np.uint64)
    places[order] = np.arange(len(distinct), dtype=np.uint64)
    return distinct[order], places[coded.indices.to_numpy()]


def sorted_distinct(peids: Int64s, sub_ids: Int64s) -> Pairs:
    """Return each pair once, by shard, peid and subId."""
    members = members_of(peids, sub_ids)
    return np.repeat(members.peids, np.diff(members.offsets)), members.sub_ids


def group_starts(values: Int64s) -> Int64s:
    """Return where each value begins in an array in which equal values stand together."""
    if not len(values):
        return np.empty(0, np.int64)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([np.zeros(1, np.int64), changes])


def by_block(peids: Int64s, sub_ids: Int64s, blocks: int) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Yield the number and the pairs of each block of shards that has any, in no order within it.

    All pairs of a peid are in one block, the same in every call with this number of ``blocks``.
    There are at most as many blocks as shards.
    """
    if blocks == 1:
        if len(peids):
            yield 0, peids, sub_ids
        return
    of_shard = (np.arange(SHARD_COUNT) * blocks // SHARD_COUNT).astype(np.uint16)
    numbers = of_shard[peids % SHARD_COUNT]
    order = np.argsort(numbers, kind="stable")
    peids, sub_ids = peids[order], sub_ids[order]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=blocks))]).tolist()
    for block in range(blocks):
        part = slice(bounds[block], bounds[block + 1])
        if part.start < part.stop:
            yield block, peids[part], sub_ids[part]
