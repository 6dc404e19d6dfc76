"""The rows that buckets exchange in a stage, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.topology.relations import SHAPE_COUNT
from spatial_udfs.bulk.buckets import bucket_of
from spatial_udfs.entity_table import Bools, Floats, Int32s, Int64s
from spatial_udfs.topology.shapes import ShapeCodes

# The level of members that an earlier run has found.
KNOWN: Final = -1


class Members(NamedTuple):
    """Members of nodes of one level; level 0 are the references as written."""

    level: int
    nodes: Int32s
    entities: Int64s


class RelatedRows(NamedTuple):
    """Pairs that share a point, by node; failing ones only where far pairs count."""

    nodes: Int32s
    entities: Int64s
    holds: Bools
    reference_shapes: ShapeCodes


class NearRows(NamedTuple):
    """Disjoint pairs within the reach of a node's condition."""

    nodes: Int32s
    entities: Int64s
    distances: Floats
    reference_shapes: ShapeCodes


class NearPairs(NamedTuple):
    """Disjoint pairs with their distance, as the spatial join has found them."""

    references: Int64s
    entities: Int64s
    distances: Floats


class FarTotals(NamedTuple):
    """Counts of references by shape, for the nodes whose far pairs count."""

    nodes: Int32s
    counts: NDArray[np.int64]

    @classmethod
    def added(cls, parts: Sequence[FarTotals]) -> FarTotals:
        """Return the sum of all parts."""
        nodes = np.concatenate([np.empty(0, np.int32), *(part.nodes for part in parts)])
        found, places = np.unique(nodes, return_inverse=True)
        counts = np.zeros((len(found), SHAPE_COUNT), np.int64)
        for_each = [np.empty((0, SHAPE_COUNT), np.int64), *(part.counts for part in parts)]
        np.add.at(counts, places, np.concatenate(for_each))
        return cls(found, counts)


Rows = TypeVar("Rows", Members, RelatedRows, NearRows, NearPairs)


def routed(rows: Rows, buckets: int) -> Iterator[tuple[int, Rows]]:
    """Yield the rows by the bucket of their entity."""
    for bucket, places in by_bucket(rows.entities, buckets):
        yield bucket, taken(rows, places)


def by_bucket(peids: Int64s, buckets: int) -> Iterator[tuple[int, Int64s]]:
    """Yield each bucket that has any of the entities, with their positions."""
    numbers = bucket_of(peids, buckets)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(buckets + 1))
    for bucket in range(buckets):
        if bounds[bucket] < bounds[bucket + 1]:
            yield bucket, order[bounds[bucket] : bounds[bucket + 1]]


def taken(rows: Rows, places: Int64s | Int32s) -> Rows:
    """Return the rows at these positions."""
    columns: list[Any] = [
        column[places] if isinstance(column, np.ndarray) else column for column in rows
    ]
    return type(rows)(*columns)


def all_members(members: Sequence[Members]) -> tuple[Int32s, Int64s]:
    """Return nodes and entities of all members."""
    return (
        np.concatenate([np.empty(0, np.int32), *(block.nodes for block in members)]),
        np.concatenate([np.empty(0, np.int64), *(block.entities for block in members)]),
    )
