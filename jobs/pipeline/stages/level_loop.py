"""Level after level: the members of all nodes, those of one level at once.

A level has one exchange. Tasks for the cells of its references find entities in any bucket; tasks
for the cells of these entities decide who is a member, and write them into the scratch folder.
What they write is where the next level begins. Levels that are little work have no exchange: a
task for each slice resolves as many of them as it can.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from jobs.pipeline.exchange import DRIVER, Sent, Tasks, in_one_task
from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.spark_messages import stage_progress
from jobs.pipeline.stages.batch_begin import Batch
from jobs.pipeline.stages.batch_state import AS_WRITTEN, BatchState, CellMembers, CellReader, reader
from jobs.pipeline.stages.distances import NO_DISTANCES, DistanceTask, NearFile, measured
from jobs.pipeline.world_tables import WorldVersion
from spatial_udfs.batch.batch_tables import LevelEdges
from spatial_udfs.batch.compiled_slice import LevelPlan
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.placed_members import PlacedRows, placed_rows
from spatial_udfs.bulk.stage_rows import FarTotals, NearRows, RelatedRows, routed
from world.lake.scratch import Scratch


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
        plans, state = batch.plans, batch.state
        # Which slices lack a level: a task can have resolved more than it was asked for.
        lacking = {plan.level: set(state.compiled) for plan in plans}
        members: dict[int, int] = defaultdict(int)
        seconds: dict[int, float] = defaultdict(float)
        reports = []
        for place, plan in enumerate(plans):
            level, own = plan.level, lacking[plan.level]
            if own:
                began = time.monotonic()
                found = self._resolved(state, plans[place:], own)
                more = [each for each in found if isinstance(each, ResolvedLevel)]
                kept = [each for each in found if isinstance(each, CellMembers)]
                state.add(kept)
                for file in kept:
                    members[file.level] += file.size
                for each in more:
                    lacking[each.level].discard(each.slice)
                later = _seconds_by_level(each for each in more if each.level != level)
                for number, spent in later.items():
                    seconds[number] += spent
                seconds[level] += time.monotonic() - began - sum(later.values())
            reports.append(LevelReport(level, plan.nodes, members[level], seconds[level]))
            what = f"level {level} of {plans[-1].level}: {plan.nodes:,} sets"
            self._say(f"{what}, {members[level]:,} members, {seconds[level]:.1f} s")
        return reports

    def _resolved(
        self, state: BatchState, plans: Sequence[LevelPlan], slices: Collection[int]
    ) -> list[CellMembers | ResolvedLevel]:
        """Resolve the first level of these slices, and more levels where that is little work."""
        tasks, plan = self._tasks, plans[0]
        what = f"level {plan.level} of {plans[-1].level}: {plan.nodes:,} sets"
        asking = [cell for cell in state.asking(plan.sources) if cell[1] in slices]
        cells = reader(self._scratch, state, self._buckets, plan.sources)
        size = state.rows_found(plan.sources)
        with stage_progress(tasks.spark, what, self._say):
            near = NO_DISTANCES
            if plan.with_distances:
                near = measured(tasks, cells, plan, asking, self._world, size)
            if near.rows is None and not plan.with_far and self._is_little(state, plan, slices):
                along = [plan, *takewhile(_can_follow, plans[1:])]
                task = SliceTask(cells, along, near.files, tasks.rows_in_task)
                return self._by_slice(task, slices, what, plans[-1].level)
            of_level = LevelTask(cells, plan.level, near.files)
            if near.rows is None:
                blocks = tasks.exchanged(of_level.ask, asking, of_level.select, state.cells, size)
            else:
                asked = tasks.units(of_level.ask, asking, size).unionByName(near.rows)
                blocks = tasks.cells(asked, of_level.select, state.cells, near.size)
            return tasks.values(blocks, what)

    def _is_little(self, state: BatchState, plan: LevelPlan, slices: Collection[int]) -> bool:
        rows = (state.of_slice(number).rows_found(plan.sources) for number in slices)
        return max(rows) <= self._tasks.rows_in_task

    def _by_slice(
        self, task: SliceTask, slices: Collection[int], what: str, last: int
    ) -> list[CellMembers | ResolvedLevel]:
        first, others = task.plans[0], task.plans[1:]
        if others:
            sets = sum(plan.nodes for plan in task.plans)
            what = f"levels {first.level} to {others[-1].level} of {last}: {sets:,} sets"
        work = sorted(slices)
        return self._tasks.run(task, work, what, len(work) * self._tasks.rows_in_task)


def _can_follow(plan: LevelPlan) -> bool:
    """Whether a task can resolve a level as soon as it has resolved those before."""
    return not (plan.with_distances or plan.with_far)


def _seconds_by_level(resolved: Iterable[ResolvedLevel]) -> dict[int, float]:
    """The seconds of each level in the task that took longest for it."""
    found: dict[int, float] = defaultdict(float)
    for each in resolved:
        found[each.level] = max(found[each.level], each.seconds)
    return found


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
        state = cells.state
        if AS_WRITTEN in cells.levels:
            for placed in _placed(cells, cell, edges):
                yield state.cell(*cell), placed
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
            if state.rows_found(plan.sources) > self.most:
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


def _placed(cells: CellReader, cell: tuple[int, int], edges: LevelEdges) -> Iterator[PlacedRows]:
    """Yield what the places of a slice find in a bucket; every bucket asks for all of them."""
    bucket, number = cell
    bound = cells.state.placed.get(number)
    if bound is None:
        return
    entities = cells.world.entities(bucket)
    written = cells.world.geometries(bucket, entities.peids)
    references = cells.scratch.get(bound.path)
    tables = cells.compiled(number).tables
    yield from placed_rows(references, tables, edges, entities, written)
