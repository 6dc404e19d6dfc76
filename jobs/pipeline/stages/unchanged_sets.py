"""Sets that a change of the world cannot reach, taken over from the version before.

They are written into ``resolvedMembers`` as sets of the new version, so the run finds them there
like those that an earlier run has resolved, and resolves the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import shapely

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, Sent, Tasks, batches_of
from jobs.pipeline.pairs.related_tables import RelatedWorld, find_related
from jobs.pipeline.stages.batch_begin import SliceKnown, find_known
from jobs.pipeline.stages.resolved_set_cache import SetCache, open_set_cache
from jobs.pipeline.subscriptions.graph_slices import Graph
from jobs.pipeline.world_tables import WorldVersion, differing_entities, open_world
from schemas.entity import NODE, VERSION, VERSIONS_TABLE
from schemas.errors import WorldError
from spatial_udfs.batch.compiled_slice import KnownNodes
from spatial_udfs.batch.descriptor_parts import DescriptorPart
from spatial_udfs.bulk.stage_rows import by_bucket
from spatial_udfs.incremental.affected_nodes import AffectedTask, NodeHits
from spatial_udfs.incremental.touched_entities import Touched, arrived_tree, joined, touched_of
from world.lake.lake_tables import NewFile
from world.lake.scratch import Scratch, remembered

# The tasks read the geometry of references: an entity costs about as much as so many members.
ROWS_OF_ENTITY: Final = 4
BYTES_IN_TREE: Final = 500  # of a box: GEOS holds a polygon for it


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What was taken over: sets, and descriptors that show nothing else; ``base`` None: nothing."""

    base: int | None = None
    sets: int = 0
    descriptors: int = 0


class _KeptSlice(NamedTuple):
    """The sets of a slice that are as they were, in a file, and the rows that tell of them."""

    number: int
    path: str
    sets: int
    descriptors: int
    told: list[NewFile]


class _TouchedFile(NamedTuple):
    path: str
    entities: int


@dataclass(frozen=True, slots=True)
class WorldDifference:
    """Where the touched entities lie; sent to tasks with their code."""

    scratch: Scratch
    paths: tuple[str, ...]
    entities: int

    def read(self) -> Touched:
        """Return all of them; a worker remembers them."""

        def read() -> tuple[int, Touched]:
            found = joined([self.scratch.get(path) for path in self.paths])
            return found.nbytes(), found

        touched: Touched = remembered((self.scratch.at.uri, *self.paths, "touched"), read)
        return touched

    def arrived(self, text: str) -> shapely.STRtree:
        """Return the boxes of what arrived, by patterns as text; a worker remembers them too."""
        touched = self.read()
        key = (self.scratch.at.uri, *self.paths, "arrived", text)
        tree: shapely.STRtree = remembered(
            key, lambda: (BYTES_IN_TREE * len(touched.boxes), arrived_tree(touched, text))
        )
        return tree


@dataclass(frozen=True, slots=True)
class _Base:
    """An earlier version whose pairs and sets are there."""

    world: WorldVersion
    related: RelatedWorld
    sets: SetCache


def take_over_sets(
    tasks: Tasks,
    scratch: Scratch,
    world: WorldVersion,
    related: RelatedWorld,
    graph: Graph,
    most: float,
    say: Callable[[str], None],
) -> TakenOver:
    """Write what no change can reach as sets of the new version; a line says how many that are.

    When more than the share ``most`` of the entities is different, nothing is taken over.
    """
    base = _base_of(world)
    if base is None:
        say("all sets are resolved: no earlier version of this CRS has resolved sets")
        return TakenOver()
    known = find_known(tasks, scratch, graph, base.sets)
    before = base.world.version
    if not known:
        say(f"all sets are resolved: version {before} has none of them")
        return TakenOver()
    difference = find_difference(tasks, scratch, base.world, world)
    share = difference.entities / max(base.world.entity_count, world.entity_count, 1)
    if share > most:
        say(
            f"all sets are resolved: {difference.entities:,} entities are different from version "
            f"{before} ({share:.1%}, at most {most:.1%}: bulk.most_changed)"
        )
        return TakenOver()
    sets = open_set_cache(world)
    kept = _kept_slices(tasks, scratch, base, difference, graph, sets, known)
    count = sum(each.sets for each in kept)
    if count:
        members = _copied_members(tasks, scratch, base, sets, related.buckets.buckets, kept)
        sets.keep([*members, *(file for each in kept for file in each.told)])
    say(
        f"{count:,} of {sum(each.size for each in known):,} sets taken over from version {before}: "
        f"the {difference.entities:,} entities that are different ({share:.1%}) cannot reach them"
    )
    return TakenOver(before, count, sum(each.descriptors for each in kept))


def _base_of(world: WorldVersion) -> _Base | None:
    """Return the newest other version in the same CRS of which pairs and sets are kept."""
    rows = world.table(VERSIONS_TABLE).rows(columns=[VERSION])
    numbers = [] if rows is None else rows.column(VERSION).to_pylist()
    for number in sorted(set(numbers) - {world.version}, reverse=True):
        try:
            other = open_world(world.spark, world.path, number)
        except WorldError:
            continue
        sets = open_set_cache(other)
        related = None if sets.is_empty else find_related(other)
        if related is not None and other.srid == world.srid:
            return _Base(other, related, sets)
    return None


def find_difference(
    tasks: Tasks, scratch: Scratch, old: WorldVersion, new: WorldVersion
) -> WorldDifference:
    """Compare two versions of one CRS by geometries and categories."""

    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [batch for batch in batches if len(batch)]
        if parts:
            rows = pa.Table.from_batches(parts)
            file = _TouchedFile(scratch.put("touched", touched_of(rows)), len(rows))
            yield from batches_of([(DRIVER, file)])

    blocks = differing_entities(old, new).mapInArrow(keep, BLOCK_TYPES)
    what = f"what is different from version {old.version}"
    files: list[_TouchedFile] = sorted(tasks.values(blocks, what))
    return WorldDifference(
        scratch, tuple(file.path for file in files), sum(file.entities for file in files)
    )


def _kept_slices(
    tasks: Tasks,
    scratch: Scratch,
    base: _Base,
    difference: WorldDifference,
    graph: Graph,
    sets: SetCache,
    known: Sequence[SliceKnown],
) -> list[_KeptSlice]:
    """Find the sets that are as they were, and write the rows that tell of them."""
    files = {facts.number: facts for facts in graph.slices}
    slices = {each.number: (files[each.number].graph, each.known) for each in known}
    task = AffectedTask(
        scratch.get, difference.read, difference.arrived, base.related.buckets, base.sets, slices,
        base.world.srid,
    )  # fmt: skip
    # A set that this version has already is not taken over again.
    here = {each.number: each.known for each in find_known(tasks, scratch, graph, sets)}
    descriptors = {number: facts.descriptors for number, facts in files.items()}

    def judge(number: int, hits: list[NodeHits]) -> Iterator[Sent]:
        nodes = scratch.get(slices[number][0]).nodes
        as_before = task.unaffected(number, hits)
        hashes = nodes.column(NODE).to_numpy()
        parts: list[DescriptorPart] = scratch.get(descriptors[number])
        shown = sum(part.showing_only(hashes[as_before]) for part in parts)
        if number in here:
            as_before &= ~np.isin(hashes, scratch.get(here[number]).nodes)
        if as_before.any():
            old: KnownNodes = scratch.get(slices[number][1])
            chosen = np.isin(old.nodes, hashes[as_before])
            path = scratch.put("kept", KnownNodes(old.nodes[chosen], old.runs[chosen]))
            told = sets.write_told(nodes.filter(pa.array(as_before)))
            yield DRIVER, _KeptSlice(number, path, int(chosen.sum()), shown, told)

    buckets = base.related.buckets.buckets
    cells = [(bucket, number) for number in slices for bucket in range(buckets)]
    size = _rows_of(base.sets) + ROWS_OF_ENTITY * base.world.entity_count
    blocks = tasks.exchanged(task.ask, cells, judge, 1 + max(slices), size)
    return tasks.values(blocks, "which sets the change can reach")


def _copied_members(
    tasks: Tasks,
    scratch: Scratch,
    base: _Base,
    sets: SetCache,
    buckets: int,
    kept: Sequence[_KeptSlice],
) -> list[NewFile]:
    """Write the members of kept sets into the buckets of the new version."""
    paths = [each.path for each in kept]
    old = base.sets

    def send(bucket: int) -> Iterator[Sent]:
        for path in paths:
            nodes, entities = old.rows(bucket, scratch.get(path))
            for to, places in by_bucket(entities, buckets):
                yield to, (nodes[places], entities[places])

    def write(bucket: int, rows: list[Any]) -> Iterator[Sent]:
        columns = (np.concatenate(column) for column in zip(*rows, strict=True))
        for file in sets.write_members(bucket, *columns):
            yield DRIVER, file

    work = sorted(old.buckets())
    blocks = tasks.exchanged(send, work, write, buckets, _rows_of(old))
    return tasks.values(blocks, "take sets over")


def _rows_of(sets: SetCache) -> int:
    """Return how many members the sets have, as far as the log says it."""
    return sum(file.rows or 0 for file in sets.files)
