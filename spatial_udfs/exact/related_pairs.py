"""Pairs whose boxes meet, with their kinds: computed when first needed, remembered from then on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from spatial_udfs.entity_table import Bools, Geometries, Positions
from spatial_udfs.exact import candidate_search
from spatial_udfs.exact.candidate_search import CandidateSearch
from spatial_udfs.exact.pair_memory import UNKNOWN, PairMemory, Pairs
from spatial_udfs.position_sets import is_in
from spatial_udfs.resolution_limits import UNLIMITED, ResolutionLimits, Turns
from spatial_udfs.topology.pair_kinds import PAIRS_OF_SHAPES, Kinds, PairKinds
from spatial_udfs.topology.pair_matrices import PairMatrices
from spatial_udfs.topology.shapes import ShapeCodes
from spatial_udfs.topology.vertex_steps import RELATE_STEP_COST, steps_by_cost

# So many pairs at most are computed before another thread gets its turn: about 50 ms.
PAIRS_PER_TURN: Final = 10_000


class RelatedPairs:
    """All pairs that may intersect, for any references. Safe to share between threads.

    What is remembered is read without a lock; matrices are computed in one thread at a time.
    """

    def __init__(
        self, geometries: Geometries, search: CandidateSearch, shapes: ShapeCodes, max_pairs: int
    ) -> None:
        """Start without remembered pairs; ``max_pairs`` bounds their number."""
        self._count = len(geometries)
        self._search = search
        self._max_pairs = max_pairs
        self.kinds = PairKinds()
        self._matrices = PairMatrices(geometries, shapes, self.kinds)
        self.memory = PairMemory(self._count, max_pairs)
        self._turns = Turns()

    def meeting(self, references: Positions) -> Iterator[Pairs]:
        """Yield all pairs of the references (ascending, unique) whose boxes meet, in steps."""
        memory = self.memory
        known = memory.known(references)
        if known.all():
            yield from self._remembered(memory, references)
            return
        if known.any():
            yield from self._remembered(memory, references[known])
        for step in self._search.steps(references[~known]):
            yield self._found(step)

    def complete(self, pairs: Pairs, limits: ResolutionLimits) -> None:
        """Compute the kinds that are not known yet, and remember them."""
        missing = np.flatnonzero(pairs.kinds == UNKNOWN)
        if not len(missing):
            return
        references, entities = pairs.references[missing], pairs.entities[missing]
        costs = self._matrices.costs(references, entities)
        for step in steps_by_cost(costs, RELATE_STEP_COST, PAIRS_PER_TURN):
            first, second = references[step], entities[step]
            kinds = self._kinds(first, second, int(costs[step.start]), limits)
            pairs.remember(missing[step], kinds)
            limits.check_time()

    def _kinds(
        self, first: Positions, second: Positions, cost: int, limits: ResolutionLimits
    ) -> Kinds:
        """Compute the kinds of one step; one heavy pair without a turn, so that others compute."""
        if limits.relate_apart is None or cost <= RELATE_STEP_COST:
            with self._turns.turn(limits):
                return self._matrices.kinds(first, second, limits)
        pair = int(first[0]), int(second[0])
        matrix = self._matrices.matrix_apart(*pair, limits.relate_apart, limits)
        with self._turns.turn(limits):
            return self._matrices.kind_of_matrix(matrix, *pair)

    def share_a_point(
        self, references: Positions, entities: Positions, limits: ResolutionLimits
    ) -> Bools:
        """Return which of the pairs share a point; for few pairs, which are not remembered."""
        pairs = Pairs(references, entities, np.full(len(references), UNKNOWN))
        self.complete(pairs, limits)
        return pairs.kinds >= PAIRS_OF_SHAPES

    def warm_up(self, stop: Callable[[], bool]) -> bool:
        """Compute everything, unless told to stop or out of room; for a thread of its own.

        Live requests go first: between two steps this waits until nobody else computes.
        """
        for step in self._compact_steps():
            while self._turns.waiting and not stop():
                time.sleep(0.001)
            if stop():
                return False
            memory = self.memory
            # Again if another thread adds some of them meanwhile: then none of the rest is added.
            while not (known := memory.known(step)).all():
                new = step[~known]
                if memory.add(new, self._query(new)) is None:
                    return False
            self._complete_mutually(memory, step)
        return True

    def forget(self) -> None:
        """Remove all pairs from memory."""
        self.memory = PairMemory(self._count, self._max_pairs)
        with self._turns.turn(UNLIMITED):
            self._matrices.forget()

    def prepared_coordinates(self) -> int:
        """Return the size of the areas that are kept prepared."""
        return self._matrices.prepared_coordinates

    def _remembered(self, memory: PairMemory, references: Positions) -> Iterator[Pairs]:
        size = candidate_search.PAIRS_PER_STEP
        ends = np.cumsum(memory.lengths(references), dtype=np.int64)
        if ends[-1] <= size:
            yield memory.get(references)
            return
        for group in np.split(references, np.searchsorted(ends, np.arange(size, ends[-1], size))):
            yield memory.get(group)

    def _found(self, references: Positions) -> Pairs:
        pairs = self._query(references)
        kept = self.memory.add(references, pairs)
        if kept is None:
            # Starting over is bounded and simple, and what is in use comes back at once.
            self.memory = PairMemory(self._count, self._max_pairs)
            kept = self.memory.add(references, pairs)
        return pairs if kept is None else kept

    def _query(self, references: Positions) -> Pairs:
        first, second = self._search.meeting(references)
        return Pairs(first, second, np.full(len(second), UNKNOWN))

    def _complete_mutually(self, memory: PairMemory, references: Positions) -> None:
        """Complete rows that are known, pairs with both ends among them from one side only.

        All of them must be known: the other side of a pair is looked up in its row. Heavy pairs
        are computed by the request that needs them, within its limits.
        """
        pairs = memory.get(references)
        first, second = pairs.references, pairs.entities
        unknown = pairs.kinds == UNKNOWN
        turned = is_in(second, references) & (second < first)
        costs = self._matrices.costs(first, second)
        unknown &= costs <= RELATE_STEP_COST
        direct = np.flatnonzero(unknown & ~turned)
        for step in steps_by_cost(costs[direct], RELATE_STEP_COST, PAIRS_PER_TURN):
            some = direct[step]
            with self._turns.turn(UNLIMITED):
                kinds = self._matrices.kinds(first[some], second[some], UNLIMITED)
            pairs.remember(some, kinds)
        turned_back = np.flatnonzero(turned & unknown)
        keys = first * np.int64(self._count) + second
        order = np.argsort(keys)
        opposite = second[turned_back] * np.int64(self._count) + first[turned_back]
        places = order[np.searchsorted(keys, opposite, sorter=order)]
        pairs.remember(turned_back, self.kinds.transposed(pairs.kinds[places]))

    def _compact_steps(self) -> Iterator[Positions]:
        """Yield all positions in groups that lie close together, so that most pairs are mutual."""
        size = candidate_search.REFERENCES_PER_STEP
        west, south, east, north = self._search.boxes.T
        strips = max(1, math.isqrt(self._count // size))
        strip = np.empty(self._count, np.int64)
        strip[np.argsort(west + east)] = np.arange(self._count) * strips // max(self._count, 1)
        order = np.lexsort((south + north, strip)).astype(np.int32)
        for start in range(0, self._count, size):
            yield np.sort(order[start : start + size])
