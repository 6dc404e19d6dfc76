"""Level after level: the members of all nodes, those of one level at once.

A level has one exchange. Tasks for the cells of its references find entities in any bucket; tasks
for the cells of these entities decide who is a member, and write them into the scratch folder.
What they write is where the next level begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from jobs.pipeline.exchange import DRIVER, Sent, Tasks
from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.scratch import Scratch
from jobs.pipeline.stage_progress import stage_progress
from jobs.pipeline.stages.batch_begin import Batch
from jobs.pipeline.stages.batch_state import BatchState, CellMembers, CellReader, reader
from jobs.pipeline.stages.compiled_slice import (
    LevelPlan,
)
from jobs.pipeline.stages.distances import near_rows
from jobs.pipeline.world_tables import WorldVersion
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.stage_rows import (
    FarTotals,
    NearRows,
    RelatedRows,
    routed,
)

# A member finds so many rows as a reference, about.
ROWS_OF_MEMBER: Final = 10


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What one level cost and gave."""

    level: int
    nodes: int
    members: int
    seconds: float


class LevelLoop:
    """Resolves a batch in a world."""

    def __init__(
        self,
        tasks: Tasks,
        scratch: Scratch,
        world: WorldVersion,
        buckets: WorldBuckets,
        say: Callable[[str], None],
    ) -> None:
        self._tasks = tasks
        self._scratch = scratch
        self._world = world
        self._buckets = buckets
        self._say = say

    def run(self, batch: Batch) -> list[LevelReport]:
        """All levels, each with a line that says what came out."""
        last = max((plan.level for plan in batch.plans), default=0)
        reports = []
        for plan in batch.plans:
            what = f"level {plan.level} of {last}: {plan.nodes:,} sets"
            began = time.monotonic()
            with stage_progress(self._tasks.spark, what, self._say):
                found = self._resolved(batch.state, plan, what)
            batch.state.add(found)
            members = sum(each.size for each in found)
            seconds = time.monotonic() - began
            reports.append(LevelReport(plan.level, plan.nodes, members, seconds))
            self._say(f"{what}, {members:,} members, {seconds:.1f} s")
        return reports

    def _resolved(self, state: BatchState, plan: LevelPlan, what: str) -> list[CellMembers]:
        """Ask, exchange, select."""
        tasks = self._tasks
        task = LevelTask(reader(self._scratch, state, self._buckets, plan.sources), plan.level)
        cells = state.asking(plan.sources)
        size = ROWS_OF_MEMBER * state.count(plan.sources)
        asked = tasks.units(task.ask, cells, size)
        if plan.with_distances:
            near = near_rows(tasks, task.cells, plan, cells, self._world, size)
            asked = asked if near is None else asked.unionByName(near)
        return tasks.values(tasks.cells(asked, task.select, state.cells, size), what)


class LevelTask:
    """What tasks do for a level."""

    def __init__(self, cells: CellReader, level: int) -> None:
        self.cells = cells
        self._level = level

    def ask(self, cell: tuple[int, int]) -> Iterator[Sent]:
        """Send what the references of a cell find to the cell of each entity."""
        cells, (bucket, number) = self.cells, cell
        compiled = cells.compiled(number)
        edges = compiled.levels.get(self._level)
        if edges is None:
            return
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

    def select(self, number_of_cell: int, blocks: list[Any]) -> Iterator[Sent]:
        """Decide who is a member in a cell, and write them."""
        cells = self.cells
        cell = divmod(number_of_cell, cells.state.slices)
        compiled = cells.compiled(cell[1])
        entities = cells.world.entities(cell[0])
        stage = BulkStage(
            compiled.levels[self._level], compiled.tables, entities, cells.members(*cell)
        )
        members = stage.select(
            [block for block in blocks if isinstance(block, RelatedRows)],
            [block for block in blocks if isinstance(block, NearRows)],
            FarTotals.added([block for block in blocks if isinstance(block, FarTotals)]),
        )
        for kept in cells.keep(cell, members, entities, compiled):
            yield DRIVER, kept
