"""Conditions on many pairs at once, and what they have to know about a pair.

A verdict keeps two Booleans for each pair: whether the condition can hold and whether it can
fail. Where only one of them is true, no exact distance is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from schemas.language.conditions import (
    Condition,
    Leaf,
    Topological,
    WithinDistance,
    fold,
    leaves,
    reach,
)
from schemas.topology.relations import SHAPE_PAIRS, far_bits
from spatial_udfs.entity_table import Bools
from spatial_udfs.topology.pair_kinds import Kinds, PairKinds


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition may turn out to be, for each pair."""

    can_hold: Bools
    can_fail: Bools

    def negated(self) -> Verdict:
        """Return the verdict of NOT."""
        return Verdict(self.can_fail, self.can_hold)

    def both(self, other: Verdict) -> Verdict:
        """Return the verdict of AND."""
        return Verdict(self.can_hold & other.can_hold, self.can_fail | other.can_fail)

    def either(self, other: Verdict) -> Verdict:
        """Return the verdict of OR."""
        return Verdict(self.can_hold | other.can_hold, self.can_fail & other.can_fail)


DistanceVerdict = Callable[[float], Verdict]


def verdict_of(
    condition: Condition, names: PairKinds, kinds: Kinds, distance: DistanceVerdict
) -> Verdict:
    """Return the verdict on pairs of these kinds, whose distances ``distance`` judges."""

    def leaf_verdict(leaf: Leaf) -> Verdict:
        if isinstance(leaf, WithinDistance):
            return distance(leaf.metres)
        holds = names.truth(leaf, names.count())[kinds]
        return Verdict(holds, ~holds)

    return fold(condition, leaf_verdict, Verdict.negated, Verdict.both, Verdict.either)


def truth_by_kind(condition: Condition, names: PairKinds) -> Bools:
    """Return the truth of a condition without distances for every kind known now."""
    # Once for all relations: another thread may add kinds between two of them.
    known = names.count()

    def leaf_truth(leaf: Leaf) -> Bools:
        return names.truth(leaf, known)

    return fold(condition, leaf_truth, np.logical_not, np.logical_and, np.logical_or)


# How the boxes of a pair nest, in four cases: not at all, the entity's in the reference's,
# the reference's in the entity's, or both.
_ENTITY_INSIDE: Final = np.array([False, True, False, True])
_REFERENCE_INSIDE: Final = np.array([False, False, True, True])
_BOTH: Final = _ENTITY_INSIDE & _REFERENCE_INSIDE
# Relations that need one box to lie in the other; all others hold in any of the four cases.
_NEEDED_NESTING: Final = {
    "C": _ENTITY_INSIDE,
    "CV": _ENTITY_INSIDE,
    "W": _REFERENCE_INSIDE,
    "CB": _REFERENCE_INSIDE,
    "E": _BOTH,
}


@dataclass(frozen=True, slots=True)
class ConditionNeeds:
    """Read off a condition once, to choose how it is evaluated."""

    has_distance: bool
    # A relation that looks at the matrix.
    has_topology: bool
    # No disjoint pair can satisfy it: pairs whose boxes meet are all candidates there are.
    meeting_only: bool
    # It needs the entity's box to lie in the reference's, or the other way round.
    entity_inside: bool
    reference_inside: bool
    reach: float
    # Truth on far pairs by pair of shapes, in the order of SHAPE_PAIRS, and whether any is true.
    far: Bools
    has_far: bool

    @classmethod
    def of(cls, condition: Condition) -> ConditionNeeds:
        """Return the needs of the condition."""
        distances = {isinstance(leaf, WithinDistance) for leaf in leaves(condition)}
        disjoint = np.arange(len(SHAPE_PAIRS), dtype=np.uint16)
        undecided = _anything(len(SHAPE_PAIRS))
        from_afar = verdict_of(condition, PairKinds(), disjoint, lambda _: undecided)
        nested = _by_nesting(condition).can_hold
        bits = far_bits(condition)
        return cls(
            has_distance=True in distances,
            has_topology=False in distances,
            meeting_only=not from_afar.can_hold.any(),
            entity_inside=not nested[~_ENTITY_INSIDE].any(),
            reference_inside=not nested[~_REFERENCE_INSIDE].any(),
            reach=reach(condition),
            far=np.array([bool(bits >> place & 1) for place in range(len(SHAPE_PAIRS))]),
            has_far=bits != 0,
        )


needs_of = lru_cache(maxsize=4096)(ConditionNeeds.of)


def _by_nesting(condition: Condition) -> Verdict:
    def leaf_verdict(leaf: Leaf) -> Verdict:
        needed = _NEEDED_NESTING.get(leaf.short) if isinstance(leaf, Topological) else None
        anything = _anything(len(_BOTH))
        return anything if needed is None else Verdict(needed, anything.can_fail)

    return fold(condition, leaf_verdict, Verdict.negated, Verdict.both, Verdict.either)


def _anything(count: int) -> Verdict:
    return Verdict(np.ones(count, np.bool_), np.ones(count, np.bool_))
