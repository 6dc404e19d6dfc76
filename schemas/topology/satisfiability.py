"""Whether any pair of shapes, at any distance, can satisfy a condition.

All that a condition can see of a pair is its two shapes, its DE-9IM matrix and on which side
of each named distance it lies. These situations are finitely many, so a condition is the set
of situations in which it holds, and AND, OR, NOT are set operations. A set is one integer
with a bit for each situation.

An intersecting pair has the distance 0, so there the matrix says all. A disjoint pair has one
matrix for its shapes, and its distance lies in one of the intervals between the distances that
the condition names.
"""

from __future__ import annotations

from typing import Final

from schemas.language.conditions import (
    Condition,
    Leaf,
    Relate,
    Topological,
    WithinDistance,
    fold,
    leaves,
)
from schemas.topology.far_pairs import SHAPE_PAIRS, leaf_far_bits
from schemas.topology.feasible_matrices import feasible_matrices
from schemas.topology.matrix_sets import MatrixSet
from schemas.topology.relations import disjoint_matrix

_INTERSECTING: Final = MatrixSet(
    [
        (reference, entity, matrix)
        for reference, entity in SHAPE_PAIRS
        for matrix in feasible_matrices(reference, entity)
        if matrix != disjoint_matrix(reference, entity)
    ]
)


def unsatisfiable(condition: Condition) -> bool:
    """Whether the condition is false for every pair there can be."""
    return not _holds_for_intersecting(condition) and not _holds_for_disjoint(condition)


def _holds_for_intersecting(condition: Condition) -> bool:
    situations = fold(condition, _intersecting, _INTERSECTING.complement, int.__and__, int.__or__)
    return situations != 0


def _intersecting(leaf: Leaf) -> int:
    match leaf:
        case Topological(short):
            return _INTERSECTING.named(short)
        case Relate(mask):
            return _INTERSECTING.fitting(mask)
        case WithinDistance():
            return _INTERSECTING.all


def _holds_for_disjoint(condition: Condition) -> bool:
    """One block of bits for each interval, nearest first; in each a bit for a pair of shapes."""
    distances = sorted(
        {leaf.metres for leaf in leaves(condition) if isinstance(leaf, WithinDistance)} - {0.0}
    )
    width = len(SHAPE_PAIRS)
    intervals = len(distances) + 1
    everywhere = (1 << width * intervals) - 1
    # A factor that repeats the bits of one block in each of them.
    in_each = everywhere // ((1 << width) - 1)
    blocks = {metres: number for number, metres in enumerate(distances, start=1)}

    def situations(leaf: Leaf) -> int:
        if isinstance(leaf, WithinDistance):
            return (1 << width * blocks.get(leaf.metres, 0)) - 1
        return leaf_far_bits(leaf) * in_each

    return fold(condition, situations, everywhere.__xor__, int.__and__, int.__or__) != 0
