"""Evaluates conditions on far pairs: disjoint, and further apart than all distances named.

On such a pair the result depends on the two shapes alone (``Relate`` may test the cells of the
exteriors). The result for all pairs of shapes is one integer with a bit for each of them.
"""

from __future__ import annotations

from typing import Final

from schemas.language.conditions import Condition, Leaf, Relate, Topological, fold
from schemas.topology.relations import MatrixSet, Shape, disjoint_matrix

SHAPE_PAIRS: Final = tuple((reference, entity) for reference in Shape for entity in Shape)
_FAR: Final = MatrixSet([(*pair, disjoint_matrix(*pair)) for pair in SHAPE_PAIRS])


def always_false_when_far(condition: Condition) -> bool:
    """Return whether no far pair can satisfy the condition: then an index finds all candidates."""
    return far_bits(condition) == 0


def far_bits(condition: Condition) -> int:
    """Return the truth on far pairs, with a bit for each of SHAPE_PAIRS, the first one lowest."""
    return fold(condition, leaf_far_bits, _FAR.complement, int.__and__, int.__or__)


def leaf_far_bits(leaf: Leaf) -> int:
    """Return the truth of one relation on far pairs, in the bits of ``far_bits``."""
    match leaf:
        case Topological(short):
            return _FAR.named(short)
        case Relate(mask):
            return _FAR.fitting(mask)
        case _:  # a far pair is further apart than every distance
            return 0
