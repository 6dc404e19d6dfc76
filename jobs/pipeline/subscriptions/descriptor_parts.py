"""Descriptors taken apart by a task, with the subscriptions that have them.

The nodes of the graph go to the driver; who shows which node, and what is wrong with whose
descriptor, stays with the task's part.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.pipeline.subscriptions.graph_tables import BASE, NODES, REFS
from jobs.pipeline.subscriptions.subscription_parts import BadRow, Int32s, Int64s, SubscriptionPart
from schemas.entity import NODE, PROOF
from spatial_udfs.bulk.numbered_conditions import CONDITION
from spatial_udfs.bulk.stage_graph import (
    JOINED,
    LEVEL,
    PATTERNS,
    REFERRED,
    graph_of,
)

SHOWN_AT_ONCE: Final = 1_000_000

_NUMBERED: Final = [pa.field(NODE, pa.int64()), pa.field(PROOF, pa.int64())]
_NODE_FIELDS: Final = [
    *_NUMBERED,
    pa.field(LEVEL, pa.int32()),
    pa.field(REFERRED, pa.list_(pa.int64())),
    pa.field(JOINED, pa.list_(pa.bool_())),
    pa.field(PATTERNS, pa.string()),
    pa.field(CONDITION, pa.string()),
]
GRAPH_SCHEMA: Final = pa.schema(
    [
        pa.field(BASE, pa.struct(_NUMBERED)),
        pa.field(REFS, pa.list_(pa.int64())),
        pa.field(NODES, pa.list_(pa.struct(_NODE_FIELDS))),
    ]
)


class ShownRows(NamedTuple):
    """Row i: the subscriptions ``sub_ids[starts[i]:starts[i + 1]]`` show a node as a stage."""

    nodes: Int64s
    stages: Int32s
    starts: Int64s
    sub_ids: Int64s


class GraphPart(NamedTuple):
    """What the driver gets of a part: its nodes, and how much there is."""

    graph: bytes  # Arrow IPC, GRAPH_SCHEMA
    subscriptions: int
    descriptors: int
    remarks: int
    bad: int


class DescriptorPart(NamedTuple):
    """Descriptor i belongs to ``sub_ids[starts[i]:starts[i + 1]]``."""

    sub_ids: Int64s
    starts: Int64s
    errors: dict[int, str]
    warnings: dict[int, list[str]]
    refs: Int64s  # of all descriptors, none of wrong ones
    ref_starts: Int64s
    shown_by: Int64s  # the descriptor
    shown_nodes: Int64s
    shown_stages: Int32s
    graph: bytes
    bad: list[BadRow]

    def for_driver(self) -> GraphPart:
        """The part without subscriptions."""
        uses = np.diff(self.starts)
        return GraphPart(
            graph=self.graph,
            subscriptions=len(self.sub_ids),
            descriptors=len(uses),
            remarks=len(self.errors) + sum(map(len, self.warnings.values())),
            bad=len(self.bad),
        )

    def shown(self) -> Iterator[ShownRows]:
        """Which subscriptions show which node, some of them at once."""
        first = self.starts[self.shown_by]
        ends = np.cumsum(self.starts[self.shown_by + 1] - first)
        total = int(ends[-1]) if len(ends) else 0
        before = np.concatenate([[0], ends])
        for start in range(0, total, SHOWN_AT_ONCE):
            end = min(start + SHOWN_AT_ONCE, total)
            rows = slice(
                int(np.searchsorted(ends, start, "right")), int(np.searchsorted(before, end))
            )
            bounds = np.clip(np.append(before[rows], end), start, end)
            shift = np.repeat(first[rows] - before[rows], np.diff(bounds))
            yield ShownRows(
                self.shown_nodes[rows],
                self.shown_stages[rows],
                bounds - start,
                self.sub_ids[np.arange(start, end) + shift],
            )


def descriptor_part(part: SubscriptionPart, salt: int) -> DescriptorPart:
    """Take the descriptors of a part apart; ``salt`` changes the numbers of all nodes."""
    graphs = [graph_of(text, salt) for text in part.texts.to_pylist()]
    errors, warnings, _, refs, _, shown = zip(*graphs, strict=True) if graphs else ((),) * 6
    flat = [(of, node, stage) for of, rows in enumerate(shown) for node, stage in rows]
    by, nodes, stages = np.array(flat, np.int64).reshape(-1, 3).T
    uses = np.bincount(part.text_of, minlength=len(graphs))
    return DescriptorPart(
        sub_ids=part.sub_ids[np.argsort(part.text_of, kind="stable")],
        starts=np.concatenate([[0], np.cumsum(uses)]),
        errors={of: error for of, error in enumerate(errors) if error is not None},
        warnings={of: found for of, found in enumerate(warnings) if found},
        refs=np.array([ref for found in refs for ref in found], np.int64),
        ref_starts=_starts(refs),
        shown_by=by,
        shown_nodes=nodes,
        shown_stages=stages.astype(np.int32),
        graph=_graph(graphs),
        bad=part.bad,
    )


def _graph(graphs: list[tuple[Any, ...]]) -> bytes:
    """The graphs as rows, each node once: it stands where it came first."""
    seen: set[tuple[int, int]] = set()
    bases, refs, nodes = [], [], []
    for error, _, base, found_refs, found, _ in graphs:
        if error is not None:
            continue
        # Two nodes are the same when number and proof are: where only one is, the driver sees both.
        new = [node for node in found if node[:2] not in seen]
        seen.update(node[:2] for node in new)
        if new or base not in seen:
            seen.add(base)
            bases.append(base)
            refs.append(found_refs)
            nodes.append(new)
    table = pa.table(
        [
            _structs(bases, _NUMBERED),
            _lists(refs, pa.array([ref for found in refs for ref in found], pa.int64())),
            _lists(nodes, _structs([node for new in nodes for node in new], _NODE_FIELDS)),
        ],
        schema=GRAPH_SCHEMA,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, GRAPH_SCHEMA) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _structs(rows: list[tuple[Any, ...]], fields: list[pa.Field]) -> pa.StructArray:
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _lists(lists: list[list[Any]], values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(_starts(lists), pa.int32()), values)


def _starts(lists: Any) -> Int64s:
    return np.array(list(accumulate(map(len, lists), initial=0)), np.int64)
