"""The results of tasks about the entities of a world, by bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.entity import CATEGORIES, HEAVY
from spatial_udfs.bulk.category_sets import Vocabulary, set_numbers
from spatial_udfs.bulk.stage_rows import by_bucket
from spatial_udfs.entity_table import Bools, Int32s, Int64s
from spatial_udfs.topology.shapes import ShapeCodes

Places: TypeAlias = NDArray[np.integer] | Bools


class PairColumns(NamedTuple):
    """Directed pairs: reference, entity, stored kind, and the category set of the entity."""

    references: Int64s
    entities: Int64s
    kinds: Int32s
    category_sets: Int32s

    def at(self, places: Places) -> PairColumns:
        """Return the rows at these positions."""
        references, entities, kinds, category_sets = self
        return PairColumns(
            references[places], entities[places], kinds[places], category_sets[places]
        )

    @classmethod
    def joined(cls, parts: Sequence[PairColumns]) -> PairColumns:
        """Return the rows of all parts."""
        references, entities, kinds, category_sets = zip(NO_PAIRS, *parts, strict=True)
        return cls(
            np.concatenate(references),
            np.concatenate(entities),
            np.concatenate(kinds),
            np.concatenate(category_sets),
        )


class EntityColumns(NamedTuple):
    """Entities: peid, shape and category set."""

    peids: Int64s
    shapes: ShapeCodes
    category_sets: Int32s

    def at(self, places: Places) -> EntityColumns:
        """Return the rows at these positions."""
        return EntityColumns(self.peids[places], self.shapes[places], self.category_sets[places])

    @classmethod
    def joined(cls, parts: Sequence[EntityColumns]) -> EntityColumns:
        """Return the rows of all parts."""
        peids, shapes, category_sets = zip(NO_ENTITIES, *parts, strict=True)
        return cls(np.concatenate(peids), np.concatenate(shapes), np.concatenate(category_sets))


class BucketPart(NamedTuple):
    """The results of one task for one bucket.

    ``geometries`` (WKB) are those of the entities. ``heavy`` are the peids of references with very
    many pairs whose own bucket this is.
    """

    pairs: PairColumns
    entities: EntityColumns
    geometries: pa.Array
    heavy: Int64s


class FoundPairs(NamedTuple):
    """Pairs that one step found; those that are ``spread`` go to the bucket of their entity."""

    pairs: PairColumns
    spread: Bools


def taken_over(
    batches: Iterable[pa.RecordBatch], vocabulary: Vocabulary, buckets: int
) -> Iterator[tuple[int, BucketPart]]:
    """Yield the pairs of an earlier version, given as table rows, by bucket.

    The columns are reference, entity, pairKind, categories and heavy. References that were heavy
    in that version stay heavy.
    """
    for batch in batches:
        references, entities, kinds = (column.to_numpy() for column in batch.columns[:3])
        pairs = PairColumns(
            references, entities, kinds, set_numbers(batch.column(CATEGORIES), vocabulary)
        )
        spread = batch.column(HEAVY).to_numpy(zero_copy_only=False)
        yield from by_buckets([FoundPairs(pairs, spread)], NO_ENTITIES, NO_GEOMETRIES, buckets)


def by_buckets(
    steps: Sequence[FoundPairs], entities: EntityColumns, geometries: pa.Array, buckets: int
) -> Iterator[tuple[int, BucketPart]]:
    """Yield each bucket that gets anything, with its part."""
    pairs = PairColumns.joined([step.pairs for step in steps])
    spread = np.concatenate([np.empty(0, np.bool_), *(step.spread for step in steps)])
    heavy = np.unique(pairs.references[spread])
    of_pairs = dict(by_bucket(np.where(spread, pairs.entities, pairs.references), buckets))
    of_entities = dict(by_bucket(entities.peids, buckets))
    of_heavy = dict(by_bucket(heavy, buckets))
    nothing = np.empty(0, np.int64)
    for bucket in sorted({*of_pairs, *of_entities, *of_heavy}):
        own = of_entities.get(bucket, nothing)
        yield (
            bucket,
            BucketPart(
                pairs.at(of_pairs.get(bucket, nothing)),
                entities.at(own),
                geometries.take(pa.array(own)),
                heavy[of_heavy.get(bucket, nothing)],
            ),
        )


def joined_bucket(parts: Sequence[BucketPart]) -> tuple[PairColumns, tuple[Any, ...]]:
    """Return pairs and entities of a bucket; a pair that was found twice stands there once.

    Pairs ascend by reference and entity. Entities ascend by peid and come as columns: peid, shape,
    category set, whether it is heavy, geometry.
    """
    pairs = PairColumns.joined([part.pairs for part in parts])
    order = np.lexsort((pairs.entities, pairs.references))
    pairs = pairs.at(order)
    again = (pairs.references[1:] == pairs.references[:-1]) & (
        pairs.entities[1:] == pairs.entities[:-1]
    )
    pairs = pairs.at(np.flatnonzero(np.concatenate([[True], ~again])[: len(order)]))
    entities = EntityColumns.joined([part.entities for part in parts])
    by_peid = np.argsort(entities.peids)
    entities = entities.at(by_peid)
    geometries = pa.concat_arrays([NO_GEOMETRIES, *(part.geometries for part in parts)])
    heavy = np.concatenate([np.empty(0, np.int64), *(part.heavy for part in parts)])
    return pairs, (
        entities.peids,
        entities.shapes.astype(np.int32),
        entities.category_sets,
        np.isin(entities.peids, heavy),
        geometries.take(pa.array(by_peid)),
    )


NO_GEOMETRIES: Final = pa.array([], pa.binary())
NO_PAIRS: Final = PairColumns(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
)
NO_ENTITIES: Final = EntityColumns(
    np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.int32)
)
