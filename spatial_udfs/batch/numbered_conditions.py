"""Conditions as data: arrays that a stage looks up, however many different conditions there are.

For a pair that shares a point the pair kind decides, so a condition is the list of kinds for
which it holds. For a disjoint pair shapes and distance decide, so it is a list of spans of
distance with the pairs of shapes for which it holds there. Beyond its reach it is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from schemas.language.condition_parser import parse_condition
from schemas.language.conditions import (
    Condition,
    Leaf,
    Relate,
    Topological,
    WithinDistance,
    fold,
    leaves,
)
from schemas.topology.relations import SHAPE_PAIRS, MatrixSet, leaf_far_bits
from spatial_udfs.entity_table import Bools, Floats, Int32s, Int64s
from spatial_udfs.topology.pair_kinds import decoded

CONDITION: Final = "condition"

# A span of distance: more than the first, at most the second; a bit for each of SHAPE_PAIRS.
Span = tuple[float, float, int]

_ALL_PAIRS: Final = (1 << len(SHAPE_PAIRS)) - 1

# More than rounding can add to a distance between two corners of the world's box.
_ROOM: Final = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class NumberedConditions:
    """Distinct conditions of a batch, by number: they belong to the batch, not to the world."""

    numbers: dict[str, int]  # by text
    truth_of: Int32s  # the row of ``truths``
    truths: Bools  # by place in the pair kinds of the world
    reaches: Floats  # nan where no disjoint pair differs from a far one
    far: Int32s  # a bit for each of SHAPE_PAIRS: the truth beyond the reach
    span_starts: Int64s
    above: Floats
    up_to: Floats
    holds: Int32s


def numbered_conditions(
    conditions: Iterable[str], pair_kinds: tuple[int, ...], diameter: float
) -> NumberedConditions:
    """Number the conditions (texts) and compute where each of them holds."""
    texts = sorted(set(conditions))
    # Thousands of distances share a handful of truths.
    rows: dict[tuple[int, ...], int] = {}
    truth_rows, reaches, far, starts, spans = [], [], [], [0], []
    for text in texts:
        condition = parse_condition(text)
        holding, covered, reach, beyond = truth_of(condition, pair_kinds, diameter)
        truth_rows.append(rows.setdefault(tuple(holding), len(rows)))
        reaches.append(np.nan if reach is None else reach)
        far.append(beyond)
        spans.extend(covered)
        starts.append(len(spans))
    truths = np.zeros((len(rows), len(pair_kinds)), np.bool_)
    for held, row in rows.items():
        truths[row, list(held)] = True
    above, up_to, holds = zip(*spans, strict=True) if spans else ((), (), ())
    return NumberedConditions(
        numbers={text: number for number, text in enumerate(texts)},
        truth_of=np.array(truth_rows, np.int32),
        truths=truths,
        reaches=np.array(reaches, np.float64),
        far=np.array(far, np.int32),
        span_starts=np.array(starts, np.int64),
        above=np.array(above, np.float64),
        up_to=np.array(up_to, np.float64),
        holds=np.array(holds, np.int32),
    )


def truth_of(
    condition: Condition, pair_kinds: tuple[int, ...], diameter: float
) -> tuple[list[int], list[Span], float | None, int]:
    """Return kinds (by position) and spans for which it holds, its reach, and its far truth."""
    holding = fold(
        condition, _related_leaf(pair_kinds), _matrices(pair_kinds).complement,
        int.__and__, int.__or__,
    )  # fmt: skip
    places = [place for place in range(len(pair_kinds)) if holding >> place & 1]
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
    return places, spans, limits[deciding] if deciding >= 0 else None, far


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
    """Return the distances in the condition that a pair of this world can exceed, ascending."""
    distances = {leaf.metres for leaf in leaves(condition) if isinstance(leaf, WithinDistance)}
    return sorted(distance for distance in distances if distance < widest)


def _disjoint_bits(condition: Condition, limit: float) -> int:
    """Return the truth, by pair of shapes, of disjoint pairs in the span that ends at ``limit``."""

    def bits(leaf: Leaf) -> int:
        if isinstance(leaf, WithinDistance):
            return _ALL_PAIRS if limit <= leaf.metres else 0
        return leaf_far_bits(leaf)

    return fold(condition, bits, _ALL_PAIRS.__xor__, int.__and__, int.__or__)
