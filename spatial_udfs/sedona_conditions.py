"""Conditions as data: rows that a join looks up, however many different conditions there are.

For a pair that shares a point the pair kind decides, so a condition is the list of kinds for
which it holds. For a disjoint pair shapes and distance decide, so it is a list of spans of
distance with the pairs of shapes for which it holds there. Beyond its reach it is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from schemas.condition_parser import parse_condition
from schemas.conditions import Condition, Leaf, Relate, Topological, WithinDistance, fold, leaves
from schemas.far_pairs import SHAPE_PAIRS, leaf_far_bits
from schemas.matrix_sets import MatrixSet
from schemas.related import PAIR_KIND
from spatial_udfs.sedona_pair_kinds import decoded

CONDITION: Final = "condition"
COND: Final = "cond"  # int, the number of a condition in this batch
REACH: Final = "reach"  # double, null where no disjoint pair differs from a far one
FAR: Final = "far"  # int, a bit for each of SHAPE_PAIRS: the truth beyond the reach
# A span of distance: more than ABOVE, at most UP_TO; HOLDS has a bit for each of SHAPE_PAIRS.
ABOVE: Final = "above"
UP_TO: Final = "upTo"
HOLDS: Final = "holds"

Span = tuple[float, float, int]

_NUMBER_FIELDS: Final = pa.schema(
    {CONDITION: pa.string(), COND: pa.int32(), REACH: pa.float64(), FAR: pa.int32()}
)
_KIND_FIELDS: Final = pa.schema({COND: pa.int32(), PAIR_KIND: pa.int32()})
_SPAN_FIELDS: Final = pa.schema(
    {COND: pa.int32(), ABOVE: pa.float64(), UP_TO: pa.float64(), HOLDS: pa.int32()}
)
_ALL_PAIRS: Final = (1 << len(SHAPE_PAIRS)) - 1

# More than rounding can add to a distance between two corners of the world's box.
_ROOM: Final = 1.0


@dataclass(frozen=True, slots=True)
class NumberedConditions:
    """Distinct conditions of a batch as rows: they belong to the batch, not to the world."""

    numbers: pa.Table  # condition (text), cond, reach, far
    kinds: pa.Table  # cond, pairKind: where it holds for pairs that share a point
    spans: pa.Table  # cond, above, upTo, holds: where it holds for disjoint pairs


def numbered_conditions(
    conditions: Iterable[str], pair_kinds: tuple[int, ...], diameter: float
) -> NumberedConditions:
    """Number the conditions (texts) and say where each of them holds."""
    numbers: list[tuple[Any, ...]] = []
    kinds: list[tuple[Any, ...]] = []
    spans: list[tuple[Any, ...]] = []
    for number, text in enumerate(sorted(set(conditions)), start=1):
        holding, covered, reach, far = truth_of(parse_condition(text), pair_kinds, diameter)
        numbers.append((text, number, reach, far))
        kinds.extend((number, kind) for kind in holding)
        spans.extend((number, *span) for span in covered)
    return NumberedConditions(
        _table(_NUMBER_FIELDS, numbers), _table(_KIND_FIELDS, kinds), _table(_SPAN_FIELDS, spans)
    )


def _table(fields: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


def span_holds(distance: Column, pair: Column) -> Column:
    """Whether a span (of ``span_rows``) covers a disjoint pair at this distance."""
    within = (distance > F.col(ABOVE)) & (distance <= F.col(UP_TO))
    return within & has_bit(F.col(HOLDS), pair)


def has_bit(bits: Column, place: Column) -> Column:
    """Whether the bit at ``place`` is set."""
    return F.call_function("getbit", bits.cast("bigint"), place.cast("int")) == 1


def truth_of(
    condition: Condition, pair_kinds: tuple[int, ...], diameter: float
) -> tuple[list[int], list[Span], float | None, int]:
    """Kinds and spans for which the condition holds, its reach, and its truth beyond that."""
    holding = fold(
        condition, _related_leaf(pair_kinds), _matrices(pair_kinds).complement,
        int.__and__, int.__or__,
    )  # fmt: skip
    kinds = [kind for place, kind in enumerate(pair_kinds) if holding >> place & 1]
    widest = diameter + _ROOM
    limits = _limits(condition, widest)
    # The last span has no end; ``widest`` stands for it, because no pair is further apart.
    bits = [_disjoint_bits(condition, limit) for limit in (*limits, widest)]
    far = bits[-1]
    deciding = max((place for place in range(len(limits)) if bits[place] != far), default=-1)
    spans = [
        (-1.0 if place == 0 else limits[place - 1], limits[place], bits[place])
        for place in range(deciding + 1)
        if bits[place]
    ]
    return kinds, spans, limits[deciding] if deciding >= 0 else None, far


@lru_cache(maxsize=8)
def _matrices(pair_kinds: tuple[int, ...]) -> MatrixSet:
    return MatrixSet([decoded(kind) for kind in pair_kinds])


def _related_leaf(pair_kinds: tuple[int, ...]) -> Callable[[Leaf], int]:
    matrices = _matrices(pair_kinds)

    def bits(leaf: Leaf) -> int:
        match leaf:
            case Topological(short):
                return matrices.named(short)
            case Relate(mask):
                return matrices.fitting(mask)
            case WithinDistance():
                return matrices.all

    return bits


def _limits(condition: Condition, widest: float) -> list[float]:
    """The distances in the condition that a pair of this world can be beyond, ascending."""
    distances = {leaf.metres for leaf in leaves(condition) if isinstance(leaf, WithinDistance)}
    return sorted(distance for distance in distances if distance < widest)


def _disjoint_bits(condition: Condition, limit: float) -> int:
    """The truth, by pair of shapes, of disjoint pairs in the span that ends at ``limit``."""

    def bits(leaf: Leaf) -> int:
        if isinstance(leaf, WithinDistance):
            return _ALL_PAIRS if limit <= leaf.metres else 0
        return leaf_far_bits(leaf)

    return fold(condition, bits, _ALL_PAIRS.__xor__, int.__and__, int.__or__)
