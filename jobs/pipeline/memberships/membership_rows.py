"""Makes membership rows of the members of nodes, as the last step of a run.

The number of rows that each file of members makes is known before. So the rows are cut into equal
shares, and a task writes a share. It reads the members of that share, and which subscriptions show
the nodes of their slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.pipeline.exchange import DRIVER, Sent, Tasks
from jobs.pipeline.stages.batch_begin import Batch
from jobs.pipeline.stages.batch_state import CellMembers
from jobs.pipeline.stages.resolved_set_cache import SetCache
from schemas.errors import SpapsError
from spatial_udfs.batch.compiled_slice import NOTHING_KNOWN, unknown_nodes
from world.lake.lake_tables import LakeTable, NewFile
from world.lake.scratch import Scratch
from world.memberships.membership_table import FILE_SCHEMA

# Rows in the file that one task writes.
LEAST_ROWS_IN_SHARE: Final = 500_000
MOST_ROWS_IN_SHARE: Final = 5_000_000
# So many rows are written in the time in which one is found.
ROWS_WRITTEN_FOR_ONE: Final = 4


class Results(NamedTuple):
    """What tasks have written, in files that nobody has committed yet.

    ``trouble`` says why the sets are not kept.
    """

    memberships: list[NewFile]
    sets: list[NewFile]
    trouble: str | None

    @property
    def rows(self) -> int:
        """How many memberships there are."""
        return sum(file.rows for file in self.memberships)


class Piece(NamedTuple):
    """Some of the rows that the members of a file make."""

    members: CellMembers
    first: int
    last: int


class _SetsOfBucket(NamedTuple):
    bucket: int
    members: list[CellMembers]


class _SetsOfSlice(NamedTuple):
    graph: str
    known: str


class _WrittenRows(NamedTuple):
    files: list[NewFile]


class _WrittenSets(NamedTuple):
    files: list[NewFile]
    trouble: str | None


def write_results(
    tasks: Tasks, scratch: Scratch, batch: Batch, table: LakeTable, version: int
) -> Results:
    """Write the rows of memberships, and the new sets for later runs."""
    task = _WritingTask(scratch, batch, table, version)
    files = [each for each in batch.state.all_files() if each.rows]
    work = [*shares_of(files, tasks.parallelism), *_set_work(batch)]
    size = sum(each.rows for each in files) // ROWS_WRITTEN_FOR_ONE
    found = tasks.run(task, work, "write memberships", size)
    rows = [each for each in found if isinstance(each, _WrittenRows)]
    sets = [each for each in found if isinstance(each, _WrittenSets)]
    troubles = [each.trouble for each in sets if each.trouble is not None]
    return Results(
        memberships=[file for each in rows for file in each.files],
        sets=[file for each in sets for file in each.files],
        trouble=troubles[0] if troubles else None,
    )


def shares_of(files: Sequence[CellMembers], parallelism: int) -> list[list[Piece]]:
    """Cut the rows of all files into shares of about one size."""
    total = sum(each.rows for each in files)
    fair = -(-total // (4 * parallelism))
    size = min(max(fair, LEAST_ROWS_IN_SHARE), MOST_ROWS_IN_SHARE)
    count = max(1, -(-total // size))
    bounds = [total * number // count for number in range(count + 1)]
    shares: list[list[Piece]] = [[] for _ in range(count)]
    before = 0
    for each in files:
        for number in range(count):
            first = max(bounds[number] - before, 0)
            last = min(bounds[number + 1] - before, each.rows)
            if first < last:
                shares[number].append(Piece(each, first, last))
        before += each.rows
    return [share for share in shares if share]


def _set_work(batch: Batch) -> Iterator[_SetsOfBucket | _SetsOfSlice]:
    by_bucket: dict[int, list[CellMembers]] = {}
    for each in batch.state.all_files():
        if each.level > 0:
            by_bucket.setdefault(each.bucket, []).append(each)
    yield from (_SetsOfBucket(bucket, found) for bucket, found in sorted(by_bucket.items()))
    for facts in batch.graph.slices:
        known = batch.known.get(facts.number)
        if known is None or known.kinds:
            yield _SetsOfSlice(facts.graph, known.known if known else "")


class _WritingTask:
    def __init__(self, scratch: Scratch, batch: Batch, table: LakeTable, version: int) -> None:
        self._scratch = scratch
        self._table = table
        self._version = version
        self._sets: SetCache = batch.sets
        self._shown = {facts.number: facts.shown for facts in batch.graph.slices}
        self._compiled = batch.state.compiled

    def __call__(self, work: Any) -> Iterator[Sent]:
        if isinstance(work, (_SetsOfBucket, _SetsOfSlice)):
            yield DRIVER, self._kept_sets(work)
            return
        files = self._table.write(self._version, None, self._rows(work), FILE_SCHEMA)
        yield DRIVER, _WrittenRows(files)

    def _rows(self, share: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        for each, first, last in share:
            members = self._scratch.get(each.path)
            shown = self._scratch.get(self._shown[each.slice])
            rows = shown.written_out(members.nodes, members.entities, first, last)
            for columns in rows:
                arrays = [pa.array(column) for column in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=FILE_SCHEMA)

    def _kept_sets(self, work: _SetsOfBucket | _SetsOfSlice) -> _WrittenSets:
        """Write resolved sets; a failure is only reported: the run is complete without them."""
        try:
            if isinstance(work, _SetsOfSlice):
                known = self._scratch.get(work.known) if work.known else NOTHING_KNOWN
                nodes = unknown_nodes(self._scratch.get(work.graph), known)
                return _WrittenSets(self._sets.write_told(nodes), None)
            nodes, peids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
            for each in work.members:
                members = self._scratch.get(each.path)
                compiled = self._scratch.get(self._compiled[each.slice])
                nodes.append(compiled.tables.node_ids[members.nodes])
                peids.append(members.entities)
            files = self._sets.write_members(
                work.bucket, np.concatenate(nodes), np.concatenate(peids)
            )
            return _WrittenSets(files, None)
        except SpapsError as error:
            return _WrittenSets([], str(error))
