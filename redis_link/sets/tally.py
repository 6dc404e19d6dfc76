"""What is counted of (peid, subId) pairs: the same from Delta, on the way and out of Redis.

The checksum does not depend on the order or on how pairs are split among tasks: each pair has
a 64-bit hash, and its upper and its lower 28 bits are added up, in which 34 billion pairs fit
into a signed sum. The hash is the ``xxhash64(peid, subId)`` of Spark SQL, so that anybody can
check a generation against its Delta table without any code of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64s: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]

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
    """Counts and sums over some pairs; tallies of disjoint parts add up."""

    pairs: int = 0
    peids: int = 0
    high: int = 0
    low: int = 0

    def __add__(self, other: Tally) -> Tally:
        """The tally of both parts together."""
        return Tally(
            self.pairs + other.pairs,
            self.peids + other.peids,
            self.high + other.high,
            self.low + other.low,
        )

    def __sub__(self, other: Tally) -> Tally:
        """The tally of what is left when a part is taken away."""
        return Tally(
            self.pairs - other.pairs,
            self.peids - other.peids,
            self.high - other.high,
            self.low - other.low,
        )

    def checksum(self) -> str:
        """One text for the sums; equal for equal sets of pairs."""
        return f"{self.high:016x}{self.low:016x}"

    @classmethod
    def from_facts(cls, pairs: int, peids: int, checksum: str) -> Tally:
        """The tally that counts and this text were made of."""
        return cls(pairs, peids, int(checksum[:16], 16), int(checksum[16:], 16))


def tally_of(peids: Int64s, sub_ids: Int64s, distinct_peids: int) -> Tally:
    """The tally of pairs given as two arrays of one length."""
    tally = Tally(0, distinct_peids)
    for part in _parts(len(peids)):
        tally += _sums(pair_hashes(peids[part], sub_ids[part]))
    return tally


def tally_of_sets(peids: Int64s, offsets: Int64s, sub_ids: Int64s) -> Tally:
    """The tally of sets ``sub_ids[offsets[i]:offsets[i + 1]]``; empty ones do not count."""
    sizes = np.diff(offsets)
    # Each peid is hashed once, however many subIds it has.
    seeds = np.repeat(_hash_words(peids, _SEED), sizes)
    tally = Tally(0, int(np.count_nonzero(sizes)))
    for part in _parts(len(sub_ids)):
        tally += _sums(_hash_words(sub_ids[part], seeds[part]))
    return tally


def pair_hashes(peids: Int64s, sub_ids: Int64s) -> Hashes:
    """``xxhash64(peid, subId)``: the hash of one value is the seed of the next."""
    return _hash_words(sub_ids, _hash_words(peids, _SEED))


def _parts(length: int) -> Iterator[slice]:
    """Parts that stay in the cache of a core from one step of a hash to the next."""
    return (slice(start, start + _HASHED_AT_ONCE) for start in range(0, length, _HASHED_AT_ONCE))


def _sums(hashes: Hashes) -> Tally:
    high = int((hashes >> np.uint64(HIGH_SHIFT)).sum(dtype=np.uint64))
    low = int((hashes & np.uint64(LOW_MASK)).sum(dtype=np.uint64))
    return Tally(len(hashes), 0, high, low)


def _hash_words(values: Int64s, seed: Hashes | np.uint64) -> Hashes:
    """XXH64 of single 64-bit words; arithmetic wraps around by intent."""
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
    """The words turned to the left; ``words`` itself is used up."""
    turned: Hashes = words >> np.uint64(64 - bits)
    words <<= np.uint64(bits)
    turned |= words
    return turned
