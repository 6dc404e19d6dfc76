"""What tasks do for levels: a cell of one level, or some levels of a whole slice.

Where a slice is little work, one task does level after level of it, for all its cells. No slice
needs another one, so there is no exchange then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.pipeline.exchange import DRIVER, Sent, in_one_task
from jobs.pipeline.stages.batch_state import AS_WRITTEN, BatchState, CellMembers, CellReader
from jobs.pipeline.stages.compiled_slice import LevelPlan
from jobs.pipeline.stages.distances import DistanceTask, NearFile
from jobs.pipeline.stages.placed_cells import ask_places
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.placed_members import PlacedRows
from spatial_udfs.bulk.stage_rows import FarTotals, NearRows, RelatedRows, routed

# A member finds so many rows as a reference, about.
ROWS_OF_MEMBER: Final = 10


class ResolvedLevel(NamedTuple):
    """A level of a slice that one task has resolved, and the seconds that it took."""

    level: int
    slice: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LevelTask:
    """What tasks do for a level; ``near`` are measured pairs that lie in files."""

    cells: CellReader
    level: int
    near: tuple[NearFile, ...] = ()

    def ask(self, cell: tuple[int, int]) -> Iterator[Sent]:
        """Send what the references of a cell find to the cell of each entity."""
        cells, (bucket, number) = self.cells, cell
        compiled = cells.compiled(number)
        edges = compiled.levels.get(self.level)
        if edges is None:
            return
        if AS_WRITTEN in cells.levels:
            yield from ask_places(cells, cell, edges)
        state = cells.state
        own, heavy = cells.members(*cell), cells.heavy_elsewhere(*cell)
        both = (np.concatenate([own[0], heavy[0]]), np.concatenate([own[1], heavy[1]]))
        stage = BulkStage(edges, compiled.tables, None, both)
        pairs = cells.world.pairs(bucket, stage.asked_references)
        for related in stage.ask_related(pairs):
            for to, rows in routed(related, state.buckets):
                yield state.cell(to, number), rows
        if edges.with_far:
            here = BulkStage(edges, compiled.tables, cells.world.entities(bucket), own)
            totals = here.references_by_shape()
            for to in range(state.buckets if len(totals.nodes) else 0):
                yield state.cell(to, number), totals
        if edges.with_distances and self.near:
            yield from DistanceTask(cells, self.level).ask_files(cell, self.near)

    def select(self, number_of_cell: int, blocks: list[Any]) -> Iterator[Sent]:
        """Decide who is a member in a cell, and write them."""
        cells = self.cells
        cell = divmod(number_of_cell, cells.state.slices)
        compiled = cells.compiled(cell[1])
        entities = cells.world.entities(cell[0])
        stage = BulkStage(
            compiled.levels[self.level], compiled.tables, entities, cells.members(*cell)
        )
        members = stage.select(
            [block for block in blocks if isinstance(block, RelatedRows)],
            [block for block in blocks if isinstance(block, NearRows)],
            FarTotals.added([block for block in blocks if isinstance(block, FarTotals)]),
            [block for block in blocks if isinstance(block, PlacedRows)],
        )
        for kept in cells.keep(cell, members, entities, compiled):
            yield DRIVER, kept


@dataclass(frozen=True, slots=True)
class SliceTask:
    """Resolves levels of a slice after each other, as long as each is little work.

    ``near`` are the measured pairs of the first level.
    """

    cells: CellReader
    plans: Sequence[LevelPlan]
    near: tuple[NearFile, ...]
    most: int  # rows of a level

    def __call__(self, number: int) -> Iterator[Sent]:
        """Send the members of each level, and when it is resolved."""
        state = self.cells.state.of_slice(number)
        for plan in self.plans:
            if rows_of(state, plan) > self.most:
                return
            began = time.monotonic()
            cells = replace(self.cells, grown=state, levels=plan.sources)
            task = LevelTask(cells, plan.level, self.near if plan is self.plans[0] else ())
            sent = in_one_task(task.ask, task.select)(state.asking(plan.sources))
            found: list[CellMembers] = [kept for _, kept in sent]
            state.add(found)
            yield from ((DRIVER, kept) for kept in found)
            seconds = time.monotonic() - began
            yield DRIVER, ResolvedLevel(plan.level, number, seconds)


def rows_of(state: BatchState, plan: LevelPlan) -> int:
    """Return how many rows the references of a level find, about."""
    return ROWS_OF_MEMBER * state.count(plan.sources)
