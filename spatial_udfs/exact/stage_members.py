"""The members of one stage: which entities have a reference for which the condition holds.

Candidate pairs come in steps: those whose boxes meet when a disjoint pair has nothing to add,
else all within reach. Every pair that does not come is far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from schemas.language.conditions import Condition
from schemas.topology.relations import SHAPE_COUNT
from spatial_udfs.entity_table import Bools, Geometries, Int64s, Positions
from spatial_udfs.exact.candidate_search import CandidateSearch, PairDistances
from spatial_udfs.exact.pair_memory import Pairs
from spatial_udfs.exact.related_pairs import RelatedPairs
from spatial_udfs.position_sets import EMPTY, as_set, is_in
from spatial_udfs.resolution_limits import ResolutionLimits
from spatial_udfs.topology.condition_verdicts import (
    ConditionNeeds,
    needs_of,
    truth_by_kind,
    verdict_of,
)
from spatial_udfs.topology.pair_kinds import shape_pairs
from spatial_udfs.topology.shapes import ShapeCodes

# Up to so many references are looked up; beyond that a mask of the whole world is quicker.
FEW_REFERENCES: Final = 512


class OpenEntities:
    """The entities that a stage may still select: of its categories, no references, not yet found.

    The mask is copied only when that pays: most stages are done after one small step.
    """

    def __init__(self, of_categories: Bools, references: Positions) -> None:
        """The entities of the stage's categories (not to be written to), less its references."""
        self._of_categories = of_categories
        self._references = references
        self._own: Bools | None = None
        self._found: list[Positions] = []

    def among(self, entities: Positions) -> Bools:
        """Return which of these entities are open."""
        if self._own is not None or self._found or len(self._references) > FEW_REFERENCES:
            return self.mask()[entities]
        return self._of_categories[entities] & ~is_in(entities, self._references)

    def close(self, selected: Positions) -> None:
        """Take out what has been selected: no further pair of it has to be looked at."""
        self._found.append(selected)

    def mask(self) -> Bools:
        """Return all open entities of the world."""
        if self._own is None:
            self._own = self._of_categories.copy()
            self._own[self._references] = False
        for selected in self._found:
            self._own[selected] = False
        self._found.clear()
        return self._own


class FarCount:
    """Evaluates conditions that hold for far pairs by counting, without a cross product.

    Such a condition selects an entity unless *every* reference for which it would hold from afar
    has come as a candidate and failed. So candidates are counted, entity by entity.
    """

    def __init__(self, far: Bools, shapes: ShapeCodes, references: Positions) -> None:
        """``far`` tells, by pair of shapes, whether the condition holds for far pairs."""
        self._far = far
        self._shapes = shapes
        by_shape = np.bincount(shapes[references], minlength=SHAPE_COUNT)
        self._references = by_shape @ far.reshape(SHAPE_COUNT, SHAPE_COUNT)
        self._came = np.zeros(len(shapes), np.int64)

    def add_candidates(self, references: Positions, entities: Positions) -> None:
        """Count these pairs as not far, whether the condition holds for them or not."""
        counted = self._far[shape_pairs(self._shapes[references], self._shapes[entities])]
        self._came += np.bincount(entities[counted], minlength=len(self._came))

    def selected(self, eligible: Bools) -> Positions:
        """Return eligible entities with at least one reference left over."""
        left = self._references[self._shapes] > self._came
        return np.flatnonzero(eligible & left).astype(np.int32)


class StageMembers:
    """Evaluates stages on one world version. Safe to share between threads."""

    def __init__(self, geometries: Geometries, shapes: ShapeCodes, max_pairs: int) -> None:
        """Index the entities; pairs are computed when first needed."""
        self._shapes = shapes
        self.search = CandidateSearch(geometries)
        self.related = RelatedPairs(geometries, self.search, shapes, max_pairs)
        self._distances = PairDistances(geometries, self.search, self.related.share_a_point)

    def select(
        self,
        condition: Condition,
        candidates: OpenEntities,
        references: Positions,
        limits: ResolutionLimits,
    ) -> Positions:
        """Return the candidates that the condition ties to a reference."""
        if not len(references):
            return EMPTY
        needs = needs_of(condition)
        far = FarCount(needs.far, self._shapes, references) if needs.has_far else None
        found = []
        for pairs in self._pairs(needs, candidates, references):
            if far is not None:
                far.add_candidates(pairs.references, pairs.entities)
            selected = self._select(condition, needs, pairs, limits)
            candidates.close(selected)
            found.append(selected)
            limits.check_time()
        if far is not None:
            found.append(far.selected(candidates.mask()))
        return as_set(np.concatenate(found)) if found else EMPTY

    def _select(
        self, condition: Condition, needs: ConditionNeeds, pairs: Pairs, limits: ResolutionLimits
    ) -> Positions:
        if needs.has_topology:
            self.related.complete(pairs, limits)
        if needs.has_distance:
            return self._select_by_distance(condition, pairs, limits)
        return pairs.entities[truth_by_kind(condition, self.related.kinds)[pairs.kinds]]

    def _select_by_distance(
        self, condition: Condition, pairs: Pairs, limits: ResolutionLimits
    ) -> Positions:
        """Return what is selected; a pair gets an exact distance only where boxes cannot decide."""
        kinds, distances = self.related.kinds, self._distances
        rough = distances.rough(pairs)
        verdict = verdict_of(condition, kinds, pairs.kinds, rough)
        sure = as_set(pairs.entities[~verdict.can_fail])
        open_pairs = verdict.can_hold & verdict.can_fail
        pairs = pairs.where(open_pairs & ~is_in(pairs.entities, sure))
        exact = distances.exact(pairs, limits)
        verdict = verdict_of(condition, kinds, pairs.kinds, exact)
        return np.concatenate([sure, pairs.entities[verdict.can_hold]])

    def _pairs(
        self, needs: ConditionNeeds, candidates: OpenEntities, references: Positions
    ) -> Iterator[Pairs]:
        """Yield pairs of candidates. Kinds are known, unknown yet, or not needed at all."""
        if needs.meeting_only or not needs.has_distance:
            for pairs in self.related.meeting(references):
                yield pairs.where(self._fitting(needs, candidates, pairs))
            return
        for step in self.search.steps(references, needs.reach):
            first, second = self._distances.candidates(step, needs.reach)
            wanted = candidates.among(second)
            first, second = first[wanted], second[wanted]
            if not needs.has_topology:
                yield Pairs(first, second, np.empty(len(first), np.uint16))
                continue
            # The kind of a disjoint pair is the place of its shapes.
            kinds = shape_pairs(self._shapes[first], self._shapes[second]).astype(np.uint16)
            pairs = Pairs(first, second, kinds)
            meeting = list(self.related.meeting(step))
            # First those that need no matrix: what they select, the others need not.
            yield pairs.where(~is_in(self._keys(pairs), np.sort(self._keys(*meeting))))
            for part in meeting:
                yield part.where(self._fitting(needs, candidates, part))

    def _fitting(self, needs: ConditionNeeds, candidates: OpenEntities, pairs: Pairs) -> Bools:
        """Return which pairs are of candidates and may nest as the condition needs it."""
        fitting = candidates.among(pairs.entities)
        if needs.entity_inside:
            fitting &= self.search.entity_may_be_inside(pairs)
        if needs.reference_inside:
            fitting &= self.search.reference_may_be_inside(pairs)
        return fitting

    def _keys(self, *parts: Pairs) -> Int64s:
        """Return one number for each pair."""
        count = np.int64(len(self._shapes))
        keys = [part.references * count + part.entities for part in parts]
        return np.concatenate(keys)
