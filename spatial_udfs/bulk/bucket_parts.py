"""What tasks find out about the entities of a world, by the bucket that it belongs to.

It travels packed: a row for each bucket that a task has something for, instead of a row for
each pair.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.entity import CATEGORIES
from spatial_udfs.bulk.batch_tables import Bools, Int32s
from spatial_udfs.bulk.category_sets import Vocabulary, set_numbers
from spatial_udfs.bulk.python_workers import spare_idle_work
from spatial_udfs.bulk.stage_rows import by_bucket
from spatial_udfs.entity_table import Int64s
from spatial_udfs.topology.shapes import ShapeCodes

spare_idle_work()

PACKED_TYPES: Final = "bucket int, part binary"
Places: TypeAlias = NDArray[np.integer] | Bools


class PairColumns(NamedTuple):
    """Directed pairs: reference, entity, stored kind, and the category set of the entity."""

    references: Int64s
    entities: Int64s
    kinds: Int32s
    category_sets: Int32s

    def at(self, places: Places) -> PairColumns:
        """Some of the rows."""
        references, entities, kinds, category_sets = self
        return PairColumns(
            references[places], entities[places], kinds[places], category_sets[places]
        )

    @classmethod
    def joined(cls, parts: Sequence[PairColumns]) -> PairColumns:
        """All rows of some parts."""
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
        """Some of the rows."""
        return EntityColumns(self.peids[places], self.shapes[places], self.category_sets[places])

    @classmethod
    def joined(cls, parts: Sequence[EntityColumns]) -> EntityColumns:
        """All rows of some parts."""
        peids, shapes, category_sets = zip(NO_ENTITIES, *parts, strict=True)
        return cls(np.concatenate(peids), np.concatenate(shapes), np.concatenate(category_sets))


class BucketPart(NamedTuple):
    """What one task has found for one bucket."""

    pairs: PairColumns
    entities: EntityColumns
    heavy: EntityColumns


class FoundPairs(NamedTuple):
    """Pairs that were found at once; ``spread`` ones go to the bucket of their entity."""

    pairs: PairColumns
    spread: Bools
    heavy: EntityColumns


def taken_over(
    batches: Iterable[pa.RecordBatch], vocabulary: Vocabulary, heavy: Int64s, buckets: int
) -> Iterator[pa.RecordBatch]:
    """Pairs of an earlier version (reference, entity, pairKind, categories) as BucketParts.

    ``heavy`` are the references that were heavy there; they stay it.
    """
    for batch in batches:
        references, entities, kinds = (column.to_numpy() for column in batch.columns[:3])
        pairs = PairColumns(
            references, entities, kinds, set_numbers(batch.column(CATEGORIES), vocabulary)
        )
        step = FoundPairs(pairs, np.isin(references, heavy), NO_ENTITIES)
        yield packed([step], NO_ENTITIES, buckets)


def packed(steps: Sequence[FoundPairs], entities: EntityColumns, buckets: int) -> pa.RecordBatch:
    """Rows of PACKED_TYPES."""
    rows = [
        (bucket, pickle.dumps(part, protocol=5))
        for bucket, part in _parts(steps, entities, buckets)
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([bucket for bucket, _ in rows], pa.int32()),
            pa.array([part for _, part in rows], pa.binary()),
        ],
        names=["bucket", "part"],
    )


def unpacked(part: bytes) -> BucketPart:
    """A part as a task of this run has packed it."""
    found: BucketPart = pickle.loads(part)  # noqa: S301 - our own bytes, straight out of a shuffle
    return found


def _parts(
    steps: Sequence[FoundPairs], entities: EntityColumns, buckets: int
) -> Iterator[tuple[int, BucketPart]]:
    """What each bucket gets; all of them hear of what is heavy."""
    pairs = PairColumns.joined([step.pairs for step in steps])
    spread = np.concatenate([np.empty(0, np.bool_), *(step.spread for step in steps)])
    heavy = EntityColumns.joined([step.heavy for step in steps])
    keys = np.where(spread, pairs.entities, pairs.references)
    of_pairs = dict(by_bucket(keys, buckets))
    of_entities = dict(by_bucket(entities.peids, buckets))
    nothing = np.empty(0, np.int64)
    for bucket in sorted(of_pairs.keys() | of_entities.keys()):
        yield (
            bucket,
            BucketPart(
                pairs.at(of_pairs.get(bucket, nothing)),
                entities.at(of_entities.get(bucket, nothing)),
                heavy,
            ),
        )


NO_PAIRS: Final = PairColumns(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
)
NO_ENTITIES: Final = EntityColumns(
    np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.int32)
)
