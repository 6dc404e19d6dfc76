"""Where the members of a batch lie while it is resolved: files of the scratch folder, by cell.

A cell is a bucket of the world with a slice of the batch. Members are in the cell of their
entity's bucket, and stay there. References with very many pairs are in one more file each time,
which every bucket of their slice reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.subscriptions.named_references import BoundSlice
from spatial_udfs.batch.compiled_slice import CompiledSlice
from spatial_udfs.bulk.buckets import BucketEntities
from spatial_udfs.bulk.stage_rows import KNOWN, Members, all_members, taken
from spatial_udfs.entity_table import Int32s, Int64s
from world.lake.scratch import Scratch

# The level of references as written.
AS_WRITTEN: Final = 0
# A member finds so many rows as a reference, about.
ROWS_OF_MEMBER: Final = 10


class CellMembers(NamedTuple):
    """Members of one level in a cell, in a file; ``rows`` is how many memberships they make."""

    bucket: int
    slice: int
    level: int
    path: str
    heavy: str  # the file of those with very many pairs, "" where there are none
    size: int
    rows: int


@dataclass(slots=True)
class BatchState:
    """The files of a batch, and how cells are numbered."""

    buckets: int
    slices: int
    compiled: dict[int, str] = field(default_factory=dict)  # by slice
    members: dict[tuple[int, int], list[CellMembers]] = field(default_factory=dict)  # by cell
    heavy: dict[int, list[CellMembers]] = field(default_factory=dict)  # by slice
    # Slices with places among their references: of these every bucket asks.
    placed: dict[int, BoundSlice] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return self.buckets * self.slices

    def cell(self, bucket: int, number: int) -> int:
        """The number of a cell."""
        return bucket * self.slices + number

    def of_slice(self, number: int) -> BatchState:
        """Return what there is of one slice, for a task that adds to it."""
        return BatchState(
            self.buckets,
            self.slices,
            self.compiled,
            {cell: list(files) for cell, files in self.members.items() if cell[1] == number},
            {number: list(self.heavy.get(number, ()))},
            {number: self.placed[number]} if number in self.placed else {},
        )

    def add(self, found: Iterable[CellMembers]) -> None:
        """Add what tasks have written."""
        for each in sorted(found):
            self.members.setdefault((each.bucket, each.slice), []).append(each)
            if each.heavy:
                self.heavy.setdefault(each.slice, []).append(each)

    def asking(self, levels: frozenset[int]) -> list[tuple[int, int]]:
        """The cells in which there are references of a level: members of these other levels."""
        cells = {cell for cell in self.members if self._files(*cell, levels)}
        for number, files in self.heavy.items():
            if any(_counts(each, levels) for each in files):
                cells |= {(bucket, number) for bucket in range(self.buckets)}
        if AS_WRITTEN in levels:
            cells |= {(bucket, number) for number in self.placed for bucket in range(self.buckets)}
        return sorted(cells)

    def count(self, levels: frozenset[int]) -> int:
        """How many members there are of some levels; places are among the references as written."""
        members = sum(each.size for each in self.all_files() if _counts(each, levels))
        places = sum(each.places for each in self.placed.values()) if AS_WRITTEN in levels else 0
        return members + places

    def rows_found(self, levels: frozenset[int]) -> int:
        """Return how many rows the members of some levels find as references, about."""
        return ROWS_OF_MEMBER * self.count(levels)

    def all_files(self) -> list[CellMembers]:
        """All members' files, by slice and bucket."""
        files = [each for found in self.members.values() for each in found]
        return sorted(files, key=lambda each: (each.slice, each.bucket, each.level))

    def _files(self, bucket: int, number: int, levels: frozenset[int]) -> list[CellMembers]:
        return [each for each in self.members.get((bucket, number), ()) if _counts(each, levels)]


@dataclass(frozen=True, slots=True)
class CellReader:
    """What tasks read of the state; its path stands for the state in the code of a task."""

    scratch: Scratch
    path: str
    world: WorldBuckets
    levels: frozenset[int] = frozenset()  # those that matter
    grown: BatchState | None = None  # by the task itself

    @property
    def state(self) -> BatchState:
        """The state as it was when the step began, or as the task has made it."""
        found: BatchState = self.scratch.get(self.path) if self.grown is None else self.grown
        return found

    def compiled(self, number: int) -> CompiledSlice:
        """A slice of the graph."""
        found: CompiledSlice = self.scratch.get(self.state.compiled[number])
        return found

    def members(self, bucket: int, number: int) -> tuple[Int32s, Int64s]:
        """Nodes and entities of a cell's members."""
        files = self.state._files(bucket, number, self.levels)  # noqa: SLF001 - the same thing
        return all_members([self.scratch.get(each.path) for each in files])

    def heavy_elsewhere(self, bucket: int, number: int) -> tuple[Int32s, Int64s]:
        """Members in other buckets that may have pairs in this one."""
        files = [
            each
            for each in self.state.heavy.get(number, ())
            if each.bucket != bucket and _counts(each, self.levels)
        ]
        return all_members([self.scratch.get(each.heavy) for each in files])

    def keep(
        self,
        cell: tuple[int, int],
        members: Members,
        entities: BucketEntities,
        compiled: CompiledSlice,
    ) -> list[CellMembers]:
        """Write the members of a cell by ascending node; for tasks."""
        if not len(members.nodes):
            return []
        members = taken(members, np.lexsort((members.entities, members.nodes)))
        is_heavy = entities.heavy[entities.places_of(members.entities)]
        heavy = taken(members, np.flatnonzero(is_heavy))
        name = f"members-{members.level}"
        return [
            CellMembers(
                *cell,
                members.level,
                self.scratch.put(name, members),
                self.scratch.put(f"{name}-heavy", heavy) if is_heavy.any() else "",
                len(members.nodes),
                int(compiled.uses[members.nodes].sum()),
            )
        ]


def _counts(each: CellMembers, levels: frozenset[int]) -> bool:
    """Whether members can be references of a level. Known ones are of any level."""
    return each.level in levels or each.level == KNOWN


def reader(scratch: Scratch, state: BatchState, world: WorldBuckets, levels: Any) -> CellReader:
    """Write the state down for tasks."""
    return CellReader(scratch, scratch.put("state", state), world, frozenset(levels))
