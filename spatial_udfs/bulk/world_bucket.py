"""One bucket of a world in memory: its entities, and the pairs that are looked up in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spatial_udfs.bulk.batch_tables import Bools, Int32s
from spatial_udfs.bulk.buckets import is_home
from spatial_udfs.entity_table import Int64s
from spatial_udfs.position_sets import is_in, spread_out
from spatial_udfs.topology.shapes import ShapeCodes


@dataclass(frozen=True, slots=True, eq=False)
class HeavyEntities:
    """References with very many pairs: every bucket knows them. ``peids`` ascend."""

    peids: Int64s
    shapes: ShapeCodes
    category_sets: Int32s

    def among(self, peids: Int64s) -> Int32s:
        """The places of those that are heavy."""
        return np.flatnonzero(is_in(peids, self.peids)).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Related pairs of a bucket, by ascending reference."""

    references: Int64s
    entities: Int64s
    kinds: Int32s
    category_sets: Int32s

    def of(self, asked: Int64s) -> tuple[Int64s, Int64s]:
        """For each pair of the asked references: the place of the asked one, and of the pair."""
        first = np.searchsorted(self.references, asked)
        counts = np.searchsorted(self.references, asked, side="right") - first
        return spread_out(first, counts)


@dataclass(frozen=True, slots=True, eq=False)
class BucketEntities:
    """The entities of a bucket, heavy ones of any bucket among them. ``peids`` ascend."""

    bucket: int
    buckets: int
    peids: Int64s
    shapes: ShapeCodes
    category_sets: Int32s

    @classmethod
    def of(
        cls,
        bucket: int,
        buckets: int,
        own: tuple[Int64s, ShapeCodes, Int32s],
        heavy: HeavyEntities,
    ) -> BucketEntities:
        """The bucket's own entities, and the heavy ones of all."""
        peids = np.concatenate([own[0], heavy.peids])
        shapes = np.concatenate([own[1], heavy.shapes])
        category_sets = np.concatenate([own[2], heavy.category_sets])
        peids, first = np.unique(peids, return_index=True)
        return cls(bucket, buckets, peids, shapes[first], category_sets[first])

    def places_of(self, peids: Int64s) -> Int64s:
        """Where each of these is; all of them must be here."""
        return np.searchsorted(self.peids, peids)

    def has(self, peids: Int64s) -> Bools:
        """Which of these are here."""
        return is_in(peids, self.peids)

    def is_home(self, peids: Int64s) -> Bools:
        """Which of these have this bucket as their own: here their rows are counted and written."""
        return is_home(peids, self.bucket, self.buckets)
