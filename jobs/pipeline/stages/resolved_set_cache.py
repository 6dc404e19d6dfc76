"""Sets that earlier runs resolved on a world version: no run has to resolve them again.

The table ``resolvedMembers`` has their members, in the bucket of each, and one row more for each
set that tells which it is: so an empty set is known too. A run adds its rows in one commit and
changes none, so runs at the same time need not know of each other: of a set that two have
resolved, the rows of one count.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.pipeline.lake_tables import LakeTable, NewFile, TableFile, lake_errors
from jobs.pipeline.pairs.related_tables import CURRENT_METHOD
from jobs.pipeline.subscriptions.graph_tables import Int64s
from jobs.pipeline.world_tables import WorldVersion
from schemas.entity import (
    BUCKET,
    CHECKSUM,
    ENTITY,
    METHOD,
    NODE,
    PROOF,
    RESOLVED_SETS_TABLE,
    RUN,
    VERSION,
)
from spatial_udfs.bulk.batch_tables import BatchTables
from spatial_udfs.bulk.stage_rows import KNOWN, Members

# Raise it whenever a set could come out differently from before, for the same related pairs.
SET_METHOD: Final = 2
_METHOD: Final = CURRENT_METHOD * 1_000 + SET_METHOD
# The bucket of the rows that tell which set it is.
_TOLD: Final = -1

FILE_SCHEMA: Final = pa.schema(
    [
        (RUN, pa.int64()),
        (NODE, pa.int64()),
        (ENTITY, pa.int64()),
        (PROOF, pa.int64()),
        (CHECKSUM, pa.string()),
        (METHOD, pa.int32()),
    ]
)
_TABLE_SCHEMA: Final = pa.schema([(VERSION, pa.int64()), (BUCKET, pa.int32()), *FILE_SCHEMA])


@dataclass(frozen=True, slots=True, eq=False)
class KnownSets:
    """Nodes of a batch that need not be resolved, and where their members lie."""

    table: LakeTable
    nodes: Int64s  # ascending
    runs: Int64s  # by node: whose rows count
    files: tuple[TableFile, ...] = ()

    def members(self, bucket: int, tables: BatchTables) -> Iterator[Members]:
        """The members in a bucket; for tasks."""
        store = self.table.store()
        for file in self.files:
            if file.bucket != bucket:
                continue
            rows = _columns(store, self.table, file.path, [RUN, NODE, ENTITY])
            runs, nodes, entities = (column.to_numpy() for column in rows.columns)
            places = np.searchsorted(self.nodes, nodes)
            places[places == len(self.nodes)] = 0
            counts = (self.nodes[places] == nodes) & (self.runs[places] == runs)
            yield Members(KNOWN, tables.numbers_of(nodes[counts]), entities[counts])


def open_known_sets(world: WorldVersion, nodes: pa.Table) -> KnownSets:
    """Those of the nodes (columns node, proof) that an earlier run has resolved."""
    table = world.table(RESOLVED_SETS_TABLE)
    nothing = KnownSets(table, np.empty(0, np.int64), np.empty(0, np.int64))
    with lake_errors(table.uri):
        files = table.files(world.version) if len(nodes) else []
        store = table.store()
        told = [
            _columns(store, table, file.path, [RUN, NODE, PROOF, CHECKSUM, METHOD])
            for file in files
            if file.bucket == _TOLD
        ]
    if not told:
        return nothing
    rows = pa.concat_tables(told)
    checksums = rows.column(CHECKSUM).to_pylist()
    valid = np.array([checksum == world.checksum for checksum in checksums], np.bool_)
    valid &= rows.column(METHOD).to_numpy() == _METHOD
    runs, ids, proofs = (rows.column(name).to_numpy()[valid] for name in (RUN, NODE, PROOF))
    asked, their_proofs = (nodes.column(name).to_numpy() for name in (NODE, PROOF))
    order = np.argsort(asked)
    places = np.searchsorted(asked, ids, sorter=order)
    places[places == len(asked)] = 0
    same = (asked[order[places]] == ids) & (their_proofs[order[places]] == proofs)
    # Of several runs the one with the lowest number counts.
    by_node = np.lexsort((runs[same], ids[same]))
    known, first = np.unique(ids[same][by_node], return_index=True)
    members = tuple(file for file in files if file.bucket != _TOLD)
    return KnownSets(table, known, runs[same][by_node][first], members)


class NewSets:
    """The sets that this run resolves, on their way into the table."""

    def __init__(self, world: WorldVersion) -> None:
        self.table = world.table(RESOLVED_SETS_TABLE)
        self.version = world.version
        self._checksum = world.checksum
        # Told apart from any other run without asking anybody.
        self.run = secrets.randbits(63)

    def write_members(self, bucket: int, node_ids: Int64s, entities: Int64s) -> list[NewFile]:
        """The members in a bucket as files; for tasks."""
        return self.table.write(
            self.version, bucket, iter(_batches(self.run, node_ids, entities)), FILE_SCHEMA
        )

    def keep(self, files: Sequence[NewFile], nodes: pa.Table) -> None:
        """Commit what tasks have written, and say which sets (columns node, proof) it is."""
        with lake_errors(self.table.uri):
            told = pa.RecordBatch.from_pydict(
                {
                    RUN: pa.array(np.full(len(nodes), self.run)),
                    NODE: nodes.column(NODE).combine_chunks(),
                    ENTITY: pa.nulls(len(nodes), pa.int64()),
                    PROOF: nodes.column(PROOF).combine_chunks(),
                    CHECKSUM: pa.array([self._checksum] * len(nodes), pa.string()),
                    METHOD: pa.array(np.full(len(nodes), _METHOD, np.int32)),
                },
                schema=FILE_SCHEMA,
            )
            vouching = self.table.write(self.version, _TOLD, iter([told]), FILE_SCHEMA)
            self.table.append([*files, *vouching], _TABLE_SCHEMA, [VERSION, BUCKET])


def _batches(run: int, node_ids: Int64s, entities: Int64s) -> Iterable[pa.RecordBatch]:
    if len(node_ids):
        count = len(node_ids)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(count, run)),
                pa.array(node_ids),
                pa.array(entities),
                pa.nulls(count, pa.int64()),
                pa.nulls(count, pa.string()),
                pa.nulls(count, pa.int32()),
            ],
            schema=FILE_SCHEMA,
        )


def _columns(store: Any, table: LakeTable, path: str, names: list[str]) -> pa.Table:
    with lake_errors(table.uri), store.open_input_file(path) as opened:
        return pq.ParquetFile(opened).read(columns=names, use_threads=False).select(names)
