"""Descriptors taken apart by a task, with the subscriptions that have them.

They are divided into slices by the node of their first stage. All nodes of a descriptor descend
from that one, so a slice holds whole graphs: its levels are resolved without any other slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.entity import NODE, PROOF
from spatial_udfs.batch.batch_tables import numbers_among
from spatial_udfs.batch.graph_tables import BASE, NAMED, NODES, REFS
from spatial_udfs.batch.numbered_conditions import CONDITION
from spatial_udfs.batch.shown_rows import ShownNodes
from spatial_udfs.batch.stage_graph import JOINED, LEVEL, PATTERNS, REFERRED, graph_of
from spatial_udfs.batch.subscription_parts import BadRow, SubscriptionPart
from spatial_udfs.entity_table import Int32s, Int64s
from spatial_udfs.position_sets import spread_out

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
        pa.field(NAMED, pa.list_(pa.string())),
        pa.field(NODES, pa.list_(pa.struct(_NODE_FIELDS))),
    ]
)


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
    graph: pa.Table  # GRAPH_SCHEMA
    bad: list[BadRow]
    named: dict[int, list[str]]  # keys, names and places of the descriptors that have some

    @property
    def remarks(self) -> int:
        """How many descriptors are wrong, and how many warnings there are."""
        return len(self.errors) + sum(map(len, self.warnings.values()))

    def showing_only(self, nodes: Int64s) -> int:
        """Return how many descriptors show some of these nodes and no other."""
        others = self.shown_by[~np.isin(self.shown_nodes, nodes)]
        return len(np.unique(self.shown_by)) - len(np.unique(others))


def descriptor_parts(
    part: SubscriptionPart, salt: int, slices: int
) -> Iterator[tuple[int, DescriptorPart]]:
    """Take the descriptors of a part apart, by slice; ``salt`` changes the numbers of all nodes."""
    graphs = [graph_of(text, salt) for text in part.texts.to_pylist()]
    owners = np.array([_slice_of(graph, slices) for graph in graphs], np.int64)
    uses = np.bincount(part.text_of, minlength=len(graphs))
    sub_ids = part.sub_ids[np.argsort(part.text_of, kind="stable")]
    first = np.cumsum(uses) - uses
    for number in range(slices):
        own = np.flatnonzero(owners == number)
        bad = part.bad if number == 0 else []
        if len(own) or bad:
            _, rows = spread_out(first[own], uses[own])
            found = [graphs[place] for place in own.tolist()]
            yield number, _part_of(found, sub_ids[rows], uses[own], bad)


def shown_nodes(ids: Int64s, parts: Sequence[DescriptorPart]) -> ShownNodes:
    """Return who shows which node, by ascending node."""
    columns: list[tuple[Any, ...]] = []
    for part in parts:
        first = part.starts[part.shown_by]
        counts = part.starts[part.shown_by + 1] - first
        columns.append((part.shown_nodes, part.shown_stages, first, counts))
    before = np.cumsum([0, *(len(part.sub_ids) for part in parts)])
    firsts = [column[2] + start for column, start in zip(columns, before, strict=False)]
    nodes = np.concatenate([np.empty(0, np.int64), *(column[0] for column in columns)])
    stages = np.concatenate([np.empty(0, np.int32), *(column[1] for column in columns)])
    counts = np.concatenate([np.empty(0, np.int64), *(column[3] for column in columns)])
    return ShownNodes.by_node(
        numbers_among(ids, nodes),
        stages,
        np.concatenate([np.empty(0, np.int64), *firsts]),
        counts,
        np.concatenate([np.empty(0, np.int64), *(part.sub_ids for part in parts)]),
    )


def _slice_of(graph: tuple[Any, ...], slices: int) -> int:
    """The slice of a descriptor's first stage; wrong descriptors have none and go to the first."""
    nodes = graph[4]
    return int(nodes[0][0]) % slices if nodes else 0


def _part_of(
    graphs: list[tuple[Any, ...]], sub_ids: Int64s, uses: Int64s, bad: list[BadRow]
) -> DescriptorPart:
    errors, warnings, _, refs, _, shown, named = zip(*graphs, strict=True) if graphs else ((),) * 7
    flat = [(of, node, stage) for of, rows in enumerate(shown) for node, stage in rows]
    by, nodes, stages = np.array(flat, np.int64).reshape(-1, 3).T
    return DescriptorPart(
        sub_ids=sub_ids,
        starts=np.concatenate([[0], np.cumsum(uses)]).astype(np.int64),
        errors={of: error for of, error in enumerate(errors) if error is not None},
        warnings={of: found for of, found in enumerate(warnings) if found},
        refs=np.array([ref for found in refs for ref in found], np.int64),
        ref_starts=_starts(refs),
        shown_by=by,
        shown_nodes=nodes,
        shown_stages=stages.astype(np.int32),
        graph=_graph(graphs),
        bad=bad,
        named={of: texts for of, texts in enumerate(named) if texts},
    )


def _graph(graphs: list[tuple[Any, ...]]) -> pa.Table:
    """The graphs as rows, each node once: it stands where it came first."""
    seen: set[tuple[int, int]] = set()
    bases, refs, nodes, named = [], [], [], []
    for error, _, base, found_refs, found, _, found_named in graphs:
        if error is not None:
            continue
        # Two nodes are the same when number and proof are: where only one is, the slice sees both.
        new = [node for node in found if node[:2] not in seen]
        seen.update(node[:2] for node in new)
        if new or base not in seen:
            seen.add(base)
            bases.append(base)
            refs.append(found_refs)
            named.append(found_named)
            nodes.append(new)
    return pa.table(
        [
            _structs(bases, _NUMBERED),
            _lists(refs, pa.array([ref for found in refs for ref in found], pa.int64())),
            _lists(named, pa.array([text for found in named for text in found], pa.string())),
            _lists(nodes, _structs([node for new in nodes for node in new], _NODE_FIELDS)),
        ],
        schema=GRAPH_SCHEMA,
    )


def _structs(rows: list[tuple[Any, ...]], fields: list[pa.Field]) -> pa.StructArray:
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _lists(lists: list[list[Any]], values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(_starts(lists), pa.int32()), values)


def _starts(lists: Any) -> Int64s:
    return np.array(list(accumulate(map(len, lists), initial=0)), np.int64)
