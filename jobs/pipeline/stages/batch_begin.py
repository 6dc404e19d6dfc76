"""The beginning of the levels: references and known members in their cells.

Conditions and patterns get their meaning on the driver, nodes in a task for each slice. Each
reference goes to its bucket, which knows whether the world has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.pipeline.exchange import DRIVER, Sent, Tasks
from jobs.pipeline.pairs.related_tables import RelatedWorld
from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.stages.batch_state import BatchState, CellMembers, CellReader
from jobs.pipeline.stages.resolved_set_cache import SetCache
from jobs.pipeline.subscriptions.graph_slices import Graph, SliceFacts
from jobs.pipeline.subscriptions.named_references import BoundSlice
from schemas.entity import NODE, REFERENCE
from spatial_udfs.batch.batch_tables import numbers_among
from spatial_udfs.batch.compiled_slice import (
    NOTHING_KNOWN,
    LevelPlan,
    compile_slice,
    level_plans,
    meaning_of,
    unknown_nodes,
)
from spatial_udfs.batch.graph_tables import GraphTables, StageKind, node_ids, stage_kinds
from spatial_udfs.batch.slice_references import NOTHING_BOUND, SliceReferences
from spatial_udfs.bulk.buckets import ENTITIES_PER_BUCKET
from spatial_udfs.bulk.stage_rows import Members, by_bucket
from spatial_udfs.entity_table import Int32s, Int64s
from world.lake.scratch import Scratch

# What it takes to bring a descriptor to its bucket, in rows that are looked up there.
ROWS_OF_DESCRIPTOR: Final = 10


class SliceKnown(NamedTuple):
    """What is left of a slice when known nodes are not resolved again."""

    number: int
    known: str  # the file of the known nodes
    size: int  # how many these are
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
        return sum(each.size for each in self.known.values())

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


def begin_batch(
    tasks: Tasks,
    scratch: Scratch,
    graph: Graph,
    sets: SetCache,
    related: RelatedWorld,
    most: int,
    bound: dict[int, BoundSlice],
) -> Batch:
    """Give the graph its meaning, and bring its references and known members to their cells.

    ``most`` limits how many different conditions and sets of patterns there may be. ``bound`` are
    the keys, names and places of the slices that have some.
    """
    world = related.buckets
    known = {each.number: each for each in find_known(tasks, scratch, graph, sets)}
    kinds = [
        kind
        for facts in graph.slices
        for kind in (known[facts.number].kinds if facts.number in known else facts.kinds)
    ]
    meaning = meaning_of(kinds, related.vocabulary, related.pair_kinds, related.diameter, most)
    meant = scratch.put("meaning", meaning)
    last = max((facts.number for facts in graph.slices), default=0)
    state = BatchState(world.buckets, last + 1)
    slices, buckets, known_buckets = state.slices, world.buckets, sets.buckets()

    def route(work: tuple[SliceFacts, str, str]) -> Iterator[Sent]:
        facts, known_path, bound_path = work
        tables, shown = scratch.get(facts.graph), scratch.get(facts.shown)
        own = scratch.get(known_path) if known_path else NOTHING_KNOWN
        compiled = scratch.put("slice", compile_slice(tables, shown, own, scratch.get(meant)))
        yield DRIVER, (facts.number, compiled)
        named = scratch.get(bound_path) if bound_path else NOTHING_BOUND
        hashes, peids = _level_0(tables, named)
        nodes = numbers_among(node_ids(tables), hashes)
        for bucket, places in by_bucket(peids, buckets):
            cell = bucket * slices + facts.number
            yield cell, (compiled, Written(nodes[places], peids[places]))
        for bucket in known_buckets if known_path else ():
            yield bucket * slices + facts.number, (compiled, KnownHere(known_path))

    def settle(cell: int, blocks: list[tuple[str, Any]]) -> Iterator[Sent]:
        yield from _settled(scratch, world, sets, divmod(cell, slices), blocks)

    work = [
        (
            facts,
            known[facts.number].known if facts.number in known else "",
            bound[facts.number].path if facts.number in bound else "",
        )
        for facts in graph.slices
    ]
    # Every bucket looks its entities up, and a reference costs as much as some of them.
    size = ENTITIES_PER_BUCKET * world.buckets + ROWS_OF_DESCRIPTOR * graph.descriptors
    settled = tasks.exchanged(route, work, settle, state.cells, size)
    found = tasks.values(settled, "bring references to their buckets")
    state.compiled = dict(each for each in found if type(each) is tuple)
    state.add(each for each in found if isinstance(each, CellMembers))
    state.placed = {number: each for number, each in bound.items() if each.places}
    sources = {pair for facts in graph.slices for pair in facts.sources}
    return Batch(
        graph,
        state,
        level_plans(kinds, sources, meaning),
        sets,
        known,
        [each for each in found if isinstance(each, Missing)],
    )


def _level_0(tables: GraphTables, named: SliceReferences) -> tuple[Int64s, Int64s]:
    """Return the references of a slice: nodes by their hashes, and peids."""
    hashes = tables.references.column(NODE).to_numpy()
    peids = tables.references.column(REFERENCE).to_numpy()
    right = ~np.isin(hashes, named.wrong)
    return (
        np.concatenate([hashes[right], named.nodes]),
        np.concatenate([peids[right], named.entities]),
    )


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
