"""What travels between the buckets of a stage: few values, each of them whole columns of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from spatial_udfs.bulk.batch_tables import Bools, Floats, Int32s
from spatial_udfs.bulk.buckets import bucket_of
from spatial_udfs.bulk.world_bucket import HeavyEntities
from spatial_udfs.entity_table import Int64s
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

    @classmethod
    def of_bytes(cls, references: bytes, entities: bytes, distances: bytes) -> NearPairs:
        """Out of columns that Spark has carried."""
        return cls(
            np.frombuffer(references, np.int64),
            np.frombuffer(entities, np.int64),
            np.frombuffer(distances, np.float64),
        )


Routed = TypeVar("Routed", Members, RelatedRows, NearRows)
Rows = TypeVar("Rows", Members, RelatedRows, NearRows, NearPairs)


def routed(rows: Routed, buckets: int, heavy: HeavyEntities) -> Iterator[tuple[int, Routed]]:
    """The rows by the bucket of their entity; those of heavy entities go to every bucket."""
    if not len(rows.entities):
        return
    known_everywhere = heavy.among(rows.entities)
    for bucket in range(buckets if len(known_everywhere) else 0):
        yield bucket, taken(rows, known_everywhere)
    if len(known_everywhere):
        rows = taken(rows, np.delete(np.arange(len(rows.entities)), known_everywhere))
    for bucket, places in by_bucket(rows.entities, buckets):
        yield bucket, taken(rows, places)


def by_bucket(peids: Int64s, buckets: int) -> Iterator[tuple[int, Int64s]]:
    """The places of the entities of each bucket that has some."""
    numbers = bucket_of(peids, buckets)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(buckets + 1))
    for bucket in range(buckets):
        if bounds[bucket] < bounds[bucket + 1]:
            yield bucket, order[bounds[bucket] : bounds[bucket + 1]]


def taken(rows: Rows, places: Int64s | Int32s) -> Rows:
    """Some of the rows."""
    columns: list[Any] = [
        column[places] if isinstance(column, np.ndarray) else column for column in rows
    ]
    return type(rows)(*columns)


def all_members(blocks: Sequence[object]) -> tuple[Int32s, Int64s]:
    """Nodes and entities of all members among the blocks."""
    members = [block for block in blocks if isinstance(block, Members)]
    if not members:
        return np.empty(0, np.int32), np.empty(0, np.int64)
    return (
        np.concatenate([block.nodes for block in members]),
        np.concatenate([block.entities for block in members]),
    )
