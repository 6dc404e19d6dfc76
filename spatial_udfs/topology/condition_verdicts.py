"""Conditions on many pairs at once, also while distances are known only roughly.

A verdict keeps two Booleans for each pair: whether the condition can hold and whether it can
fail. Where only one of them is true, no exact distance is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schemas.language.conditions import Condition, Leaf, WithinDistance, fold
from spatial_udfs.topology.pair_kinds import Bools, Kinds, PairKinds


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition may turn out to be, for each pair."""

    can_hold: Bools
    can_fail: Bools

    def negated(self) -> Verdict:
        """NOT."""
        return Verdict(self.can_fail, self.can_hold)

    def both(self, other: Verdict) -> Verdict:
        """AND."""
        return Verdict(self.can_hold & other.can_hold, self.can_fail | other.can_fail)

    def either(self, other: Verdict) -> Verdict:
        """OR."""
        return Verdict(self.can_hold | other.can_hold, self.can_fail & other.can_fail)


DistanceVerdict = Callable[[float], Verdict]


def verdict_of(
    condition: Condition, names: PairKinds, kinds: Kinds, distance: DistanceVerdict
) -> Verdict:
    """The condition on pairs of these kinds, whose distances ``distance`` judges."""

    def leaf_verdict(leaf: Leaf) -> Verdict:
        if isinstance(leaf, WithinDistance):
            return distance(leaf.metres)
        holds = names.truth(leaf, names.count())[kinds]
        return Verdict(holds, ~holds)

    return fold(condition, leaf_verdict, Verdict.negated, Verdict.both, Verdict.either)


def truth_by_kind(condition: Condition, names: PairKinds) -> Bools:
    """A condition without distances, for every kind known now."""
    # Once for all relations: another thread may add kinds between two of them.
    known = names.count()

    def leaf_truth(leaf: Leaf) -> Bools:
        return names.truth(leaf, known)

    return fold(condition, leaf_truth, np.logical_not, np.logical_and, np.logical_or)
