"""Sets that earlier runs resolved on a world version, so that no run resolves them again.

The table ``resolvedMembers`` has their members, in the bucket of each, and one row more for each
set that tells which it is: so an empty set is known too. A run adds its rows in one commit and
changes none, so runs at the same time need not know of each other: of a set that two have
resolved, the rows of one count.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.pipeline.pairs.related_tables import CURRENT_METHOD, GEOS
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import CHECKSUM, ENTITY, METHOD, NODE, PROOF, RESOLVED_SETS_TABLE, RUN
from spatial_udfs.batch.batch_tables import BatchTables
from spatial_udfs.batch.compiled_slice import NOTHING_KNOWN, KnownNodes
from spatial_udfs.bulk.stage_rows import KNOWN, Members
from spatial_udfs.entity_table import Int64s
from world.lake.bulk_tables import RESOLVED_SETS, WORLD_PARTITIONS, in_world
from world.lake.lake_tables import LakeTable, NewFile, TableFile, lake_errors

# Raise it whenever a set could come out differently from before, for the same related pairs.
SET_METHOD: Final = 2
_METHOD: Final = CURRENT_METHOD * 1_000 + SET_METHOD
# The bucket of the rows that tell which set it is.
_TOLD: Final = -1
_ROWS_AT_ONCE: Final = 250_000


@dataclass(frozen=True, slots=True, eq=False)
class SetCache:
    """The sets of a world version, for tasks; ``run`` is the number of the run that adds some."""

    table: LakeTable
    version: int
    checksum: str  # of the world, with the version of GEOS
    run: int
    files: tuple[TableFile, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no run has kept any set."""
        return not self.files

    def buckets(self) -> set[int]:
        """Return the buckets that have members of known sets."""
        return {each.bucket for each in self.files if each.bucket not in (None, _TOLD)}

    def known_of(self, nodes: pa.Table) -> KnownNodes:
        """Return those of the nodes (columns node, proof) that an earlier run has resolved."""
        names = [RUN, NODE, PROOF, CHECKSUM, METHOD]
        told = [self._rows(each, names) for each in self.files if each.bucket == _TOLD]
        if not told or not len(nodes):
            return NOTHING_KNOWN
        rows = pa.concat_tables(told)
        of_now = pc.and_(
            pc.equal(rows.column(CHECKSUM), self.checksum), pc.equal(rows.column(METHOD), _METHOD)
        )
        rows = rows.filter(of_now)
        runs, ids, proofs = (rows.column(name).to_numpy() for name in (RUN, NODE, PROOF))
        asked, their_proofs = (nodes.column(name).to_numpy() for name in (NODE, PROOF))
        order = np.argsort(asked)
        places = np.searchsorted(asked, ids, sorter=order)
        places[places == len(asked)] = 0
        same = (asked[order[places]] == ids) & (their_proofs[order[places]] == proofs)
        # Of several runs the one with the lowest number counts.
        by_node = np.lexsort((runs[same], ids[same]))
        known, first = np.unique(ids[same][by_node], return_index=True)
        return KnownNodes(known, runs[same][by_node][first])

    def members(self, bucket: int, known: KnownNodes, tables: BatchTables) -> Members:
        """Return the members of known sets in a bucket."""
        nodes, entities = self.rows(bucket, known)
        return Members(KNOWN, tables.numbers_of(nodes), entities)

    def rows(self, bucket: int, known: KnownNodes) -> tuple[Int64s, Int64s]:
        """Return the members of known sets in a bucket: nodes by their hashes, and entities."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for file in self.files:
            if file.bucket != bucket or not len(known.nodes):
                continue
            read = self._rows(file, [RUN, NODE, ENTITY])
            runs, nodes, entities = (column.to_numpy() for column in read.columns)
            places = np.searchsorted(known.nodes, nodes)
            places[places == len(known.nodes)] = 0
            counts = (known.nodes[places] == nodes) & (known.runs[places] == runs)
            found.append((nodes[counts], entities[counts]))
        nodes, entities = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return nodes, entities

    def write_members(self, bucket: int, node_ids: Int64s, entities: Int64s) -> list[NewFile]:
        """Write the members in a bucket as files."""
        batches = (
            _batch(
                {
                    NODE: node_ids[at : at + _ROWS_AT_ONCE],
                    ENTITY: entities[at : at + _ROWS_AT_ONCE],
                },
                self.run,
            )
            for at in range(0, len(node_ids), _ROWS_AT_ONCE)
        )
        return self.table.write(self.version, bucket, batches, RESOLVED_SETS)

    def write_told(self, nodes: pa.Table) -> list[NewFile]:
        """Write which sets (columns node, proof) this run has resolved."""

        def batches() -> Iterator[pa.RecordBatch]:
            for part in nodes.select([NODE, PROOF]).to_batches(_ROWS_AT_ONCE):
                told = {NODE: part.column(NODE), PROOF: part.column(PROOF)}
                count = len(part)
                told[CHECKSUM] = pa.repeat(pa.scalar(self.checksum), count)
                told[METHOD] = pa.repeat(pa.scalar(_METHOD, pa.int32()), count)
                yield _batch(told, self.run)

        return self.table.write(self.version, _TOLD, batches(), RESOLVED_SETS)

    def keep(self, files: Sequence[NewFile]) -> None:
        """Commit what tasks have written."""
        with lake_errors(self.table.uri):
            self.table.append(files, in_world(RESOLVED_SETS), WORLD_PARTITIONS)

    def _rows(self, file: TableFile, names: list[str]) -> pa.Table:
        with (
            lake_errors(self.table.uri),
            self.table.store().open_input_file(file.path) as opened,
        ):
            rows = pq.ParquetFile(opened).read(columns=names, use_threads=False).select(names)
        # Another writer of the table may have its texts as views.
        return rows.cast(pa.schema([RESOLVED_SETS.field(name) for name in names]))


def open_set_cache(world: WorldVersion) -> SetCache:
    """Open the sets of a world version, as they are now."""
    table = world.table(RESOLVED_SETS_TABLE)
    with lake_errors(table.uri):
        files = tuple(table.files(world.version))
    # The number of the run tells it from any other without asking anybody.
    run = secrets.randbits(63)
    return SetCache(table, world.version, f"{world.checksum} {GEOS}", run, files)


def _batch(columns: dict[str, Any], run: int) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    every = {RUN: np.full(count, run), **columns}
    arrays = [
        pa.array(every[field.name]) if field.name in every else pa.nulls(count, field.type)
        for field in RESOLVED_SETS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RESOLVED_SETS)
