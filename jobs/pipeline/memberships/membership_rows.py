"""From members of nodes to membership rows: the step that makes few rows many, and comes last.

Each bucket writes the rows of its entities, whoever shows them: so a zone that half of all
subscriptions use is no burden for one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import Broadcast

from jobs.pipeline.lake_tables import LakeTable, NewFile
from jobs.pipeline.pairs.world_buckets import WorldBuckets
from jobs.pipeline.stages.level_loop import LevelLoop
from jobs.pipeline.stages.level_tasks import PartitionTask, Routed, staying
from jobs.pipeline.stages.resolved_set_cache import NewSets
from jobs.pipeline.subscriptions.batch_reader import ReadBatch
from jobs.pipeline.subscriptions.descriptor_parts import ShownRows
from schemas.errors import SpapsError
from spatial_udfs.bulk.batch_tables import BatchTables, Int32s
from spatial_udfs.bulk.stage_rows import Members, all_members, taken
from spatial_udfs.entity_table import Int64s
from world.memberships.membership_table import FILE_SCHEMA

# Arrays of some megabytes are used again by the allocator; larger ones cost new pages each time.
ROWS_IN_BATCH: Final = 250_000


class Results(NamedTuple):
    """What tasks have written of members, in files that nobody has committed yet.

    ``trouble`` says why the sets are not kept.
    """

    memberships: list[NewFile]
    sets: list[NewFile]
    trouble: str | None

    @property
    def rows(self) -> int:
        """How many memberships there are."""
        return sum(file.rows for file in self.memberships)


def write_results(
    read: ReadBatch, loop: LevelLoop, table: LakeTable, version: int, sets: NewSets
) -> Results:
    """Let each bucket write its rows of memberships, and its members of new sets."""
    buckets = loop.places.value.buckets
    everywhere = read.shown().flatMap(lambda shown: [(at, shown) for at in range(buckets)])
    here = loop.state.mapPartitionsWithIndex(staying).union(everywhere)
    task = _writing_task(loop.tables, loop.places, table, version, sets)
    written = here.partitionBy(buckets, int).mapPartitionsWithIndex(task).collect()
    troubles = [each.trouble for each in written if each.trouble is not None]
    return Results(
        memberships=[file for each in written for file in each.memberships],
        sets=[file for each in written for file in each.sets],
        trouble=troubles[0] if troubles else None,
    )


def _writing_task(
    tables: Broadcast[BatchTables],
    world: Broadcast[WorldBuckets],
    table: LakeTable,
    version: int,
    sets: NewSets,
) -> PartitionTask:
    def write(bucket: int, rows: Iterable[Routed]) -> Iterator[Results]:
        blocks: list[Any] = [block for _, block in rows]
        members = [
            taken(block, np.flatnonzero(world.value.is_home(bucket, block.entities)))
            for block in blocks
            if isinstance(block, Members)
        ]
        resolved_now = [block for block in members if block.level > 0]
        files, trouble = _kept_sets(resolved_now, tables.value, bucket, sets)
        nodes, peids = all_members(members)
        shown = [block for block in blocks if isinstance(block, ShownRows)]
        batches = written_out(nodes, peids, shown, tables.value)
        yield Results(table.write(version, None, batches, FILE_SCHEMA), files, trouble)

    return write


def _kept_sets(
    members: Sequence[Members], tables: BatchTables, bucket: int, sets: NewSets
) -> tuple[list[NewFile], str | None]:
    """The run is complete without them: when they cannot be written, that is only said."""
    nodes, peids = all_members(members)
    try:
        return sets.write_members(bucket, tables.node_ids[nodes], peids), None
    except SpapsError as error:
        return [], str(error)


def written_out(
    nodes: Int32s, peids: Int64s, shown: Sequence[ShownRows], tables: BatchTables
) -> Iterator[pa.RecordBatch]:
    """Every member of a node with every subscription that shows it, in batches."""
    order = np.argsort(nodes, kind="stable")
    nodes, peids = nodes[order], peids[order]
    for part in shown:
        first, counts = _members_of(part.nodes, nodes, tables)
        shows = np.diff(part.starts)
        ends = np.cumsum(counts * shows)
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, ROWS_IN_BATCH):
            places = np.arange(begin, min(begin + ROWS_IN_BATCH, total))
            rows = np.searchsorted(ends, places, side="right")
            within = places - (ends[rows] - counts[rows] * shows[rows])
            subscriber, member = np.divmod(within, counts[rows])
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(part.sub_ids[part.starts[rows] + subscriber]),
                    pa.array(peids[first[rows] + member]),
                    pa.array(part.stages[rows]),
                ],
                schema=FILE_SCHEMA,
            )


def _members_of(ids: Int64s, nodes: Int32s, tables: BatchTables) -> tuple[Int64s, Int64s]:
    """For each node (by its id) where its members begin among the ordered ones, and how many."""
    numbers = tables.numbers_of(ids)
    first = np.searchsorted(nodes, numbers)
    return first, np.searchsorted(nodes, numbers, side="right") - first
