"""Level after level: the members of all nodes, those of one level at once.

A level has one exchange. Tasks for the cells of its references find entities in any bucket; tasks
for the cells of these entities decide who is a member, and write them into the scratch folder.
What they write is where the next level begins. Levels that are little work have no exchange: a
task for each slice resolves as many of them as it can.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from jobs.pipeline.exchange import Tasks
from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.scratch import Scratch
from jobs.pipeline.stage_progress import stage_progress
from jobs.pipeline.stages.batch_begin import Batch
from jobs.pipeline.stages.batch_state import BatchState, CellMembers, reader
from jobs.pipeline.stages.compiled_slice import LevelPlan
from jobs.pipeline.stages.distances import NO_DISTANCES, measured
from jobs.pipeline.stages.level_tasks import LevelTask, ResolvedLevel, SliceTask, rows_of
from jobs.pipeline.world_tables import WorldVersion


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
        size = rows_of(state, plan)
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
        rows = (rows_of(state.of_slice(number), plan) for number in slices)
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
