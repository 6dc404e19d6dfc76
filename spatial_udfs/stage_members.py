"""The members of one stage: which entities have a reference for which the condition holds.

Candidate pairs come in steps: rows of related pairs when a disjoint pair has nothing to add,
else all pairs within reach. Every pair that does not come is far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import shapely

from schemas.conditions import Condition
from spatial_udfs.condition_verdicts import ConditionNeeds, truth_by_kind, verdict_of
from spatial_udfs.entity_table import EntityTable, Positions
from spatial_udfs.far_count import FarCount
from spatial_udfs.pair_distances import PairDistances
from spatial_udfs.pair_kinds import Bools, Kinds, shape_pairs
from spatial_udfs.position_sets import EMPTY, as_set, difference, is_in
from spatial_udfs.related_pairs import PAIRS_PER_STEP, RelatedPairs
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.shapes import shape_codes

FIRST_STEP: Final = 64

_needs_of = lru_cache(maxsize=4096)(ConditionNeeds.of)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Pairs with their kinds; a disjoint pair's kind is the place of its shapes."""

    references: Positions
    entities: Positions
    kinds: Kinds

    def where(self, chosen: Bools) -> _Candidates:
        return _Candidates(self.references[chosen], self.entities[chosen], self.kinds[chosen])


class StageMembers:
    """Evaluates stages on one world version. Safe to share between threads."""

    def __init__(self, table: EntityTable, max_pairs: int) -> None:
        """Index the entities; related pairs are computed when first asked for."""
        self._shapes = shape_codes(table)
        tree = shapely.STRtree(table.geometries)
        # The tree is built by its first query, which must not happen in two threads at once.
        tree.query(shapely.Point(0, 0))
        self.related = RelatedPairs(table, tree, self._shapes, max_pairs)
        self._distances = PairDistances(table.geometries, tree)

    def select(
        self,
        condition: Condition,
        eligible: Bools,
        references: Positions,
        excluded: Positions,
        limits: ResolutionLimits,
    ) -> Positions:
        """Eligible entities, none of them excluded, that the condition ties to a reference."""
        if not len(references):
            return EMPTY
        needs = _needs_of(condition)
        far = FarCount(needs.far, self._shapes, references) if needs.far.any() else None
        if needs.has_distance:
            steps = self._select_by_distance(condition, needs, eligible, references, far, limits)
        else:
            steps = self._select_by_kind(condition, eligible, references, far, limits)
        found = list(steps)
        if far is not None:
            found.append(far.selected(eligible))
        return difference(as_set(np.concatenate(found)), excluded)

    def _select_by_kind(
        self,
        condition: Condition,
        eligible: Bools,
        references: Positions,
        far: FarCount | None,
        limits: ResolutionLimits,
    ) -> Iterator[Positions]:
        for rows in self.related.of(references, limits):
            # After the rows: a kind that they brought along is in the table.
            holds = truth_by_kind(condition, self.related.kinds)[rows.kinds]
            entities = rows.entities[holds]
            yield entities[eligible[entities]]
            if far is not None:
                far.add_candidates(rows.entities, rows.kinds)
            limits.check_time()

    def _select_by_distance(
        self,
        condition: Condition,
        needs: ConditionNeeds,
        eligible: Bools,
        references: Positions,
        far: FarCount | None,
        limits: ResolutionLimits,
    ) -> Iterator[Positions]:
        """Pairs that boxes cannot decide get an exact distance, unless that cannot matter."""
        undecided = eligible if len(references) == 1 else eligible.copy()
        kinds, distances = self.related.kinds, self._distances
        for step in self._candidates(needs, references, limits):
            pairs = step.where(undecided[step.entities])
            if far is not None:
                far.add_candidates(pairs.entities, pairs.kinds)
            rough = distances.rough(pairs.references, pairs.entities)
            verdict = verdict_of(condition, kinds, pairs.kinds, rough)
            sure = as_set(pairs.entities[~verdict.can_fail])
            pairs = pairs.where(verdict.can_hold & verdict.can_fail)
            pairs = pairs.where(~is_in(pairs.entities, sure))
            exact = distances.exact(pairs.references, pairs.entities)
            verdict = verdict_of(condition, kinds, pairs.kinds, exact)
            measured = pairs.entities[verdict.can_hold]
            yield sure
            yield measured
            if len(references) > 1:
                undecided[sure] = False
                undecided[measured] = False
            limits.check_time()

    def _candidates(
        self, needs: ConditionNeeds, references: Positions, limits: ResolutionLimits
    ) -> Iterator[_Candidates]:
        if needs.related_only:
            for rows in self.related.of(references, limits):
                yield _Candidates(rows.pair_references(), rows.entities, rows.kinds)
            return
        start, size = 0, FIRST_STEP
        while start < len(references):
            step = references[start : start + size]
            first, second = self._distances.candidates(step, needs.reach)
            kinds = shape_pairs(self._shapes[first], self._shapes[second]).astype(np.uint16)
            if needs.has_topology:
                self._set_related(kinds, step, first, second, limits)
            yield _Candidates(first, second, kinds)
            start += len(step)
            size = max(1, PAIRS_PER_STEP * len(step) // max(len(first), len(step)))

    def _set_related(
        self,
        kinds: Kinds,
        references: Positions,
        first: Positions,
        second: Positions,
        limits: ResolutionLimits,
    ) -> None:
        """Put in the kinds of those pairs (first, second) that are related."""
        count = np.int64(len(self._shapes))
        keys = first * count + second
        for rows in self.related.of(references, limits):
            related = rows.pair_references() * count + rows.entities
            if not len(related):
                continue
            places = np.searchsorted(related, keys)
            places[places == len(related)] = 0
            found = related[places] == keys
            kinds[found] = rows.kinds[places[found]]
