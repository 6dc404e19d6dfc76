"""Related pairs of a world version: computed when first asked for, remembered from then on."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import shapely

from schemas.errors import DeadlineError
from spatial_udfs.entity_table import EntityTable, Positions
from spatial_udfs.pair_kinds import PAIRS_OF_SHAPES, PairKinds
from spatial_udfs.pair_matrices import PairMatrices
from spatial_udfs.position_sets import is_in
from spatial_udfs.related_rows import RelatedRows, Rows
from spatial_udfs.resolution_limits import UNLIMITED, ResolutionLimits
from spatial_udfs.shapes import ShapeCodes

# Steps of bounded size: between two of them limits are checked and other threads get through.
ROWS_PER_STEP: Final = 512
PAIRS_PER_STEP: Final = 1_000_000


class RelatedPairs:
    """All pairs that intersect, with their kinds, for any references. Safe to share.

    What is remembered is read without a lock; computing happens in one thread at a time.
    """

    def __init__(
        self, table: EntityTable, tree: shapely.STRtree, shapes: ShapeCodes, max_pairs: int
    ) -> None:
        """Know nothing yet; remember at most ``max_pairs`` pairs."""
        self._geometries = table.geometries
        self._tree = tree
        self._max_pairs = max_pairs
        self.kinds = PairKinds()
        self.matrices = PairMatrices(table.geometries, shapes, self.kinds)
        self.remembered = RelatedRows(len(table), max_pairs)
        self._computing = threading.Lock()
        self._counting = threading.Lock()
        self._waiting = 0

    def of(self, references: Positions, limits: ResolutionLimits) -> Iterator[Rows]:
        """The rows of the references (ascending, unique), in steps, in no given order."""
        remembered = self.remembered
        known = remembered.known(references)
        if known.all():
            yield from _in_steps(remembered, references)
            return
        if known.any():
            yield from _in_steps(remembered, references[known])
        missing = references[~known]
        for start in range(0, len(missing), ROWS_PER_STEP):
            yield from self._computed(missing[start : start + ROWS_PER_STEP], limits)

    def warm_up(self, stop: Callable[[], bool]) -> bool:
        """Compute all rows, unless told to stop or out of room; meant for a thread of its own.

        Live requests go first: between two steps this waits until nobody else computes.
        """
        for step in self._compact_steps():
            while self._waiting and not stop():
                time.sleep(0.001)
            if stop():
                return False
            with self._computing:
                missing = step[~self.remembered.known(step)]
                rows = self._compute(missing, UNLIMITED)
                if not self.remembered.room_for(len(rows)):
                    return False
                self.remembered.add(rows)
        return True

    def _computed(self, missing: Positions, limits: ResolutionLimits) -> list[Rows]:
        with self._turn_to_compute(limits):
            # Somebody else may have computed some of them meanwhile.
            known = self.remembered.known(missing)
            done = [self.remembered.get(missing[known])] if known.any() else []
            rows = self._compute(missing[~known], limits)
            if not self.remembered.room_for(len(rows)):
                # Starting over is bounded and simple, and what is in use comes back at once.
                self.remembered = RelatedRows(len(self._geometries), self._max_pairs)
            if self.remembered.room_for(len(rows)):
                self.remembered.add(rows)
        return [*done, rows]

    @contextmanager
    def _turn_to_compute(self, limits: ResolutionLimits) -> Iterator[None]:
        with self._counting:
            self._waiting += 1
        try:
            if not self._computing.acquire(timeout=limits.seconds_left()):
                raise DeadlineError("the resolver was busy for all of the time allowed")
        finally:
            with self._counting:
                self._waiting -= 1
        try:
            yield
        finally:
            self._computing.release()

    def _compute(self, references: Positions, limits: ResolutionLimits) -> Rows:
        """Complete rows. A pair with both ends among the references is computed once."""
        asked, found = self._tree.query(self._geometries[references])
        first, second = references[asked], found.astype(np.int32)
        mutual = is_in(second, references)
        wanted = (first != second) & ~(mutual & (second < first))
        first, second, mutual = first[wanted], second[wanted], mutual[wanted]
        kinds = self.matrices.kinds(first, second, limits)
        related = kinds >= PAIRS_OF_SHAPES
        first, second, mutual, kinds = (
            first[related],
            second[related],
            mutual[related],
            kinds[related],
        )
        back_kinds = self.kinds.transposed(kinds[mutual])
        owners = np.concatenate([first, second[mutual]])
        members = np.concatenate([second, first[mutual]])
        order = np.argsort(owners * np.int64(len(self._geometries)) + members)
        lengths = np.bincount(np.searchsorted(references, owners), minlength=len(references))
        return Rows(
            references,
            lengths.astype(np.int32),
            members[order],
            np.concatenate([kinds, back_kinds])[order],
        )

    def _compact_steps(self) -> Iterator[Positions]:
        """All positions in groups that lie close together, so that most pairs are mutual."""
        count = len(self._geometries)
        bounds = shapely.bounds(self._geometries)
        x, y = bounds[:, 0] + bounds[:, 2], bounds[:, 1] + bounds[:, 3]
        strips = max(1, math.isqrt(count // ROWS_PER_STEP))
        strip = np.empty(count, np.int64)
        strip[np.argsort(x)] = np.arange(count) * strips // max(count, 1)
        order = np.lexsort((y, strip)).astype(np.int32)
        for start in range(0, count, ROWS_PER_STEP):
            yield np.sort(order[start : start + ROWS_PER_STEP])


def _in_steps(remembered: RelatedRows, references: Positions) -> Iterator[Rows]:
    if len(references) == 1:
        yield remembered.get(references)
        return
    ends = np.cumsum(remembered.lengths(references), dtype=np.int64)
    limits = np.arange(PAIRS_PER_STEP, ends[-1], PAIRS_PER_STEP)
    for group in np.split(references, np.searchsorted(ends, limits)):
        yield remembered.get(group)
