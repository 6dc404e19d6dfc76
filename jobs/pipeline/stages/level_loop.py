"""Level after level: the members of all nodes, those of one level at once.

A level has one exchange. Tasks for the cells of its references find entities in any bucket; tasks
for the cells of these entities decide who is a member, and write them into the scratch folder.
What they write is where the next level begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.pipeline.exchange import DRIVER, Sent, Tasks
from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.scratch import Scratch
from jobs.pipeline.stage_progress import stage_progress
from jobs.pipeline.stages.batch_state import BatchState, CellMembers, CellReader, reader
from jobs.pipeline.stages.compiled_slice import (
    NOTHING_KNOWN,
    KnownNodes,
    LevelPlan,
    Meaning,
    compile_slice,
    level_plans,
    meaning_of,
    unknown_nodes,
)
from jobs.pipeline.stages.distances import near_rows
from jobs.pipeline.stages.resolved_set_cache import SetCache
from jobs.pipeline.subscriptions.graph_slices import (
    Graph,
    SliceFacts,
    StageKind,
    level_sources,
    node_ids,
    stage_kinds,
)
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import NODE, REFERENCE
from spatial_udfs.bulk.batch_tables import Int32s, numbers_among
from spatial_udfs.bulk.bulk_stage import BulkStage
from spatial_udfs.bulk.stage_rows import (
    FarTotals,
    Members,
    NearRows,
    RelatedRows,
    by_bucket,
    routed,
)
from spatial_udfs.entity_table import Int64s


# A member finds so many rows as a reference, about.
ROWS_OF_MEMBER: Final = 10


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What one level cost and gave."""

    level: int
    nodes: int
    members: int
    seconds: float


class SliceKnown(NamedTuple):
    """What is left of a slice when known nodes are not resolved again."""

    number: int
    known: str  # the file of the known nodes
    count: int  # of these
    kinds: list[StageKind]


class Missing(NamedTuple):
    """References of a slice that the world does not have, in a file."""

    slice: int
    path: str


class Written(NamedTuple):
    """References as written, on their way to the cell of each."""

    nodes: Int32s
    entities: Int64s


class KnownHere(NamedTuple):
    """Tells a cell that it has members of known nodes."""

    known: str


@dataclass(slots=True, eq=False)
class Batch:
    """A batch on its way through the levels."""

    graph: Graph
    state: BatchState
    plans: list[LevelPlan]
    sets: SetCache
    known: dict[int, SliceKnown]
    missing: list[Missing]

    @property
    def known_count(self) -> int:
        """How many nodes earlier runs have resolved."""
        return sum(each.count for each in self.known.values())

    @property
    def node_count(self) -> int:
        """How many nodes this run resolves."""
        return sum(plan.nodes for plan in self.plans)


def find_known(tasks: Tasks, scratch: Scratch, graph: Graph, sets: SetCache) -> list[SliceKnown]:
    """Return what earlier runs have resolved, by slice."""
    if sets.is_empty:
        return []

    def look_up(facts: SliceFacts) -> Iterator[Sent]:
        tables = scratch.get(facts.graph)
        known = sets.known_of(tables.nodes)
        if len(known.nodes):
            kinds = stage_kinds(unknown_nodes(tables, known))
            path = scratch.put("known", known)
            yield DRIVER, SliceKnown(facts.number, path, len(known.nodes), kinds)

    return tasks.run(look_up, graph.slices, "look known sets up")


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

    def begin(self, graph: Graph, sets: SetCache, related: Any, most: int) -> Batch:
        """Give the graph its meaning, and bring its references and known members to their cells."""
        tasks, scratch, world = self._tasks, self._scratch, self._buckets
        known = {each.number: each for each in find_known(tasks, scratch, graph, sets)}
        kinds = [
            kind
            for facts in graph.slices
            for kind in (known[facts.number].kinds if facts.number in known else facts.kinds)
        ]
        meaning = meaning_of(kinds, related, most)
        meant = scratch.put("meaning", meaning)
        last = max((facts.number for facts in graph.slices), default=0)
        state = BatchState(world.buckets, last + 1)
        slices, buckets, known_buckets = state.slices, world.buckets, sets.buckets()

        def route(work: tuple[SliceFacts, str]) -> Iterator[Sent]:
            facts, known_path = work
            tables, shown = scratch.get(facts.graph), scratch.get(facts.shown)
            own = scratch.get(known_path) if known_path else NOTHING_KNOWN
            compiled = scratch.put("slice", compile_slice(tables, shown, own, scratch.get(meant)))
            yield DRIVER, (facts.number, compiled)
            nodes = numbers_among(node_ids(tables), tables.references.column(NODE).to_numpy())
            peids = tables.references.column(REFERENCE).to_numpy()
            for bucket, places in by_bucket(peids, buckets):
                cell = bucket * slices + facts.number
                yield cell, (compiled, Written(nodes[places], peids[places]))
            for bucket in known_buckets if known_path else ():
                yield bucket * slices + facts.number, (compiled, KnownHere(known_path))

        def settle(cell: int, blocks: list[tuple[str, Any]]) -> Iterator[Sent]:
            yield from _settled(scratch, world, sets, divmod(cell, slices), blocks)

        work = [
            (facts, known[facts.number].known if facts.number in known else "")
            for facts in graph.slices
        ]
        settled = tasks.cells(tasks.units(route, work), settle, state.cells)
        found = tasks.values(settled, "bring references to their buckets")
        state.compiled = dict(each for each in found if type(each) is tuple)
        state.add(each for each in found if isinstance(each, CellMembers))
        sources = {pair for facts in graph.slices for pair in facts.sources}
        return Batch(
            graph,
            state,
            level_plans(kinds, sources, meaning),
            sets,
            known,
            [each for each in found if isinstance(each, Missing)],
        )

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
            members = sum(each.count for each in found)
            seconds = time.monotonic() - began
            reports.append(LevelReport(plan.level, plan.nodes, members, seconds))
            self._say(f"{what}, {members:,} members, {seconds:.1f} s")
        return reports

    def _resolved(self, state: BatchState, plan: LevelPlan, what: str) -> list[CellMembers]:
        """Ask, exchange, select."""
        tasks = self._tasks
        task = LevelTask(
            reader(self._scratch, state, self._buckets, plan.sources), plan.level
        )
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
        pairs = cells.world.pairs(bucket, stage.asked_references())
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


def _settled(
    scratch: Scratch,
    world: WorldBuckets,
    sets: SetCache,
    cell: tuple[int, int],
    blocks: Sequence[tuple[str, Any]],
) -> Iterator[Sent]:
    """Keep the references of a cell that exist, and the members of known nodes."""
    compiled = scratch.get(blocks[0][0])
    entities = world.entities(cell[0])
    cells = CellReader(scratch, "", world)
    written = [block for _, block in blocks if isinstance(block, Written)]
    if written:
        nodes = np.concatenate([each.nodes for each in written])
        peids = np.concatenate([each.entities for each in written])
        there = entities.has(peids)
        level_0 = Members(0, nodes[there], peids[there])
        for kept in cells.keep(cell, level_0, entities, compiled):
            yield DRIVER, kept
        if not there.all():
            yield DRIVER, Missing(cell[1], scratch.put("missing", np.unique(peids[~there])))
    for known in {block.known for _, block in blocks if isinstance(block, KnownHere)}:
        members = sets.members(cell[0], scratch.get(known), compiled.tables)
        for kept in cells.keep(cell, members, entities, compiled):
            yield DRIVER, kept
