"""The graph of a batch in slices: its nodes, who shows them, and what is wrong with whom.

A slice holds whole graphs and lies in files of the scratch folder. What comes to the driver of it
is how many nodes there are of each kind of stage: a level, a condition and patterns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from jobs.pipeline.exchange import DRIVER, Sent, Tasks
from jobs.pipeline.subscriptions.snapshot import PartFile, Snapshot
from schemas.errors import SpapsError
from spatial_udfs.batch.descriptor_parts import (
    GRAPH_SCHEMA,
    DescriptorPart,
    descriptor_parts,
    shown_nodes,
)
from spatial_udfs.batch.graph_tables import (
    StageKind,
    graph_tables,
    level_sources,
    node_ids,
    stage_kinds,
)
from spatial_udfs.batch.subscription_parts import (
    SubscriptionPart,
    by_text,
    each_once,
    merged,
)
from world.lake.scratch import Scratch

# Two of a million nodes share a number once in ten million batches; twice in a row, never.
_ATTEMPTS: Final = 3
# A slice is held by a task. Small ones only serve to keep all cores busy.
MOST_TEXTS_IN_SLICE: Final = 200_000
LEAST_TEXTS_IN_SLICE: Final = 2_500
# A million entities: a task can have the pairs of all of them.
FEW_BUCKETS: Final = 16


class SliceFacts(NamedTuple):
    """A slice: the files that it lies in, and how much it is."""

    number: int
    graph: str  # GraphTables
    shown: str  # ShownNodes
    descriptors: str  # a list of DescriptorParts
    subscriptions: int
    distinct: int  # descriptors
    remarks: int
    bad: int
    kinds: list[StageKind]
    sources: set[tuple[int, int]]  # a level, and a level whose members are references there
    clash: bool
    named: int  # keys, names and places


@dataclass(frozen=True, slots=True)
class Graph:
    """The slices of a batch."""

    slices: tuple[SliceFacts, ...]
    subscriptions: int
    descriptors: int
    remarks: int  # wrong descriptors and warnings
    bad: int  # rows that are no subscriptions


def slice_count(texts: int, buckets: int, parallelism: int) -> int:
    """Return in how many slices to cut a batch, so that all cores have cells to work on.

    In a world of few buckets a task may have a whole slice, so there is one for each core.
    """
    wanted = -(-2 * parallelism // buckets)
    if buckets <= FEW_BUCKETS:
        wanted = max(wanted, parallelism)
    worth = texts // LEAST_TEXTS_IN_SLICE
    return max(1, -(-texts // MOST_TEXTS_IN_SLICE), min(wanted, worth))


def to_graph(tasks: Tasks, scratch: Scratch, subscriptions: Snapshot, slices: int) -> Graph:
    """Take the descriptors apart into nodes; each distinct text is read once."""
    for salt in range(_ATTEMPTS):
        found = _slices(tasks, scratch, subscriptions, slices, salt)
        if not any(each.clash for each in found):
            return Graph(
                slices=tuple(sorted(found)),
                subscriptions=sum(each.subscriptions for each in found),
                descriptors=sum(each.distinct for each in found),
                remarks=sum(each.remarks for each in found),
                bad=sum(each.bad for each in found),
            )
    raise SpapsError("the nodes of this batch cannot be told apart; divide the subscriptions")


def _slices(
    tasks: Tasks, scratch: Scratch, subscriptions: Snapshot, slices: int, salt: int
) -> list[SliceFacts]:
    what = "take descriptors apart"
    is_by_text = subscriptions.by_text

    def joined(number: int, parts: list[DescriptorPart]) -> Iterator[Sent]:
        yield DRIVER, _written_slice(scratch, number, parts)

    if subscriptions.is_small:

        def take_apart(files: Sequence[PartFile]) -> Iterator[Sent]:
            whole = each_once(
                merged([scratch.get(file.path) for file in files]), by_text=is_by_text
            )
            for number, part in descriptor_parts(whole, salt, slices):
                yield from joined(number, [part])

        return tasks.run(take_apart, [subscriptions.files], what) if subscriptions.files else []

    # Taking a text apart costs as much as a hundred rows elsewhere.
    size = max(subscriptions.subscriptions, 100 * subscriptions.texts)
    texts = tasks.partitions(subscriptions.texts, size)

    def cut(file: PartFile) -> Iterator[Sent]:
        yield from by_text(each_once(scratch.get(file.path), by_text=is_by_text), texts)

    def divide(_: int, parts: list[SubscriptionPart]) -> Iterator[Sent]:
        yield from descriptor_parts(merged(parts), salt, slices)

    by_slice = tasks.cells(tasks.units(cut, subscriptions.files, size), divide, texts, size)
    return tasks.values(tasks.cells(by_slice, joined, slices, size), what)


def _written_slice(scratch: Scratch, number: int, parts: list[DescriptorPart]) -> SliceFacts:
    tables = [GRAPH_SCHEMA.empty_table(), *(part.graph for part in parts)]
    graph = graph_tables(pa.concat_tables(tables))
    ids = node_ids(graph)
    rest = [part._replace(graph=None) for part in parts]
    return SliceFacts(
        number=number,
        graph=scratch.put("graph", graph),
        shown=scratch.put("shown", shown_nodes(ids, parts)) if not graph.clash else "",
        descriptors=scratch.put("descriptors", rest),
        subscriptions=sum(len(part.sub_ids) for part in parts),
        distinct=sum(len(part.starts) - 1 for part in parts),
        remarks=sum(part.remarks for part in parts),
        bad=sum(len(part.bad) for part in parts),
        kinds=stage_kinds(graph.nodes),
        sources=level_sources(graph),
        clash=graph.clash,
        named=len(graph.named),
    )
