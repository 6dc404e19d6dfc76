"""Subscriptions taken apart into nodes; nothing here knows the world yet.

Tasks exchange parts, and among them what the driver has to know. It asks for that alone, and the
rest waits in the files of the exchange: no task computes twice, and none has to hand over to
another one what it keeps for later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import SparkSession

from jobs.pipeline.spark_errors import spark_errors_as
from jobs.pipeline.subscriptions.descriptor_parts import (
    GRAPH_SCHEMA,
    DescriptorPart,
    GraphPart,
    ShownRows,
    descriptor_part,
)
from jobs.pipeline.subscriptions.graph_tables import GraphTables, graph_tables
from jobs.pipeline.subscriptions.line_ranges import LEAST_BYTES, MOST_BYTES
from jobs.pipeline.subscriptions.subscription_lines import RowPlaces, Subscriptions
from jobs.pipeline.subscriptions.subscription_parts import (
    PartFacts,
    Sent,
    SubscriptionPart,
    Told,
    by_number,
    by_text,
    each_once,
    facts_of,
    may_share_numbers,
    merged,
    sent_parts,
    told,
)
from schemas.errors import SourceError, SpapsError

# Two of a million nodes share a number once in ten million batches; twice in a row, never.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """How large the batch is."""

    subscriptions: int
    descriptors: int
    remarks: int  # wrong descriptors and warnings


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The nodes with the driver, and with the tasks who shows them and what is wrong with whom."""

    descriptors: RDD[DescriptorPart]
    graph: GraphTables
    facts: BatchFacts
    bad_count: int  # rows that are no subscriptions
    places: RowPlaces  # where these stand

    def shown(self) -> RDD[ShownRows]:
        """Which subscriptions show which node."""
        return self.descriptors.mapPartitions(_shown)


def read_batch(spark: SparkSession, subscriptions: Subscriptions) -> ReadBatch:
    """From subscriptions to nodes; each distinct descriptor is read once."""
    read: Callable[[int], ReadBatch]
    with spark_errors_as(SourceError, f"{subscriptions.source} cannot be read"):
        if subscriptions.is_small:
            read = partial(_read_by_one_task, subscriptions)
        else:
            read = partial(_read_by_many, *_by_text(spark, subscriptions))
        for salt in range(_ATTEMPTS):
            batch = read(salt)
            if not batch.graph.clash:
                return batch
    raise SpapsError("the nodes of this batch cannot be told apart; divide the subscriptions")


def _read_by_one_task(subscriptions: Subscriptions, salt: int) -> ReadBatch:
    order_by_text = subscriptions.by_text

    def take_apart(parts: Iterable[SubscriptionPart]) -> Iterator[Sent]:
        found = list(parts)
        part = descriptor_part(each_once(merged(found), by_text=order_by_text), salt)
        yield 0, part
        yield 0, Told((part.for_driver(), [facts_of(each) for each in found]))

    sent = _exchanged(subscriptions.parts.mapPartitions(take_apart), 1)
    [(graph, facts)] = _told(sent)
    return _read_batch(sent, [graph], subscriptions.places(facts))


def _by_text(spark: SparkSession, subscriptions: Subscriptions) -> tuple[RDD[Sent], RowPlaces]:
    """Equal texts brought to the same task, and where rows stand."""
    at_once = min(spark.sparkContext.defaultParallelism, subscriptions.size // LEAST_BYTES)
    count = max(1, at_once, -(-subscriptions.size // MOST_BYTES))
    order_by_text = subscriptions.by_text

    def cut_by_text(parts: Iterable[SubscriptionPart]) -> Iterator[Sent]:
        for part in parts:
            yield 0, Told(facts_of(part))
            yield from by_text(each_once(part, by_text=order_by_text), count)

    def cut_by_number(parts: Iterable[SubscriptionPart]) -> Iterator[Sent]:
        for part in parts:
            yield from by_number(part, count)

    def join(sent: Iterable[Sent]) -> Iterator[SubscriptionPart]:
        yield merged(sent_parts(sent))

    parts = subscriptions.parts
    texts = _exchanged(parts.mapPartitions(cut_by_text), count)
    facts: list[PartFacts] = _told(texts)
    if not subscriptions.numbers_differ and may_share_numbers(facts):
        joined = _exchanged(parts.mapPartitions(cut_by_number), count).mapPartitions(join)
        texts = _exchanged(joined.mapPartitions(cut_by_text), count)
    return texts, subscriptions.places(facts)


def _read_by_many(texts: RDD[Sent], places: RowPlaces, salt: int) -> ReadBatch:
    def take_apart(number: int, sent: Iterable[Sent]) -> Iterator[Sent]:
        part = descriptor_part(merged(sent_parts(sent)), salt)
        yield number, part
        yield 0, Told(part.for_driver())

    sent = _exchanged(texts.mapPartitionsWithIndex(take_apart), texts.getNumPartitions())
    return _read_batch(sent, _told(sent), places)


def _read_batch(sent: RDD[Sent], found: list[GraphPart], places: RowPlaces) -> ReadBatch:
    facts = BatchFacts(
        subscriptions=sum(part.subscriptions for part in found),
        descriptors=sum(part.descriptors for part in found),
        remarks=sum(part.remarks for part in found),
    )
    tables = [GRAPH_SCHEMA.empty_table(), *(_table(part.graph) for part in found)]
    return ReadBatch(
        descriptors=sent.mapPartitions(sent_parts),
        graph=graph_tables(pa.concat_tables(tables)),
        facts=facts,
        bad_count=sum(part.bad for part in found),
        places=places,
    )


def _exchanged(sent: RDD[Sent], count: int) -> RDD[Sent]:
    return sent.partitionBy(count, int)


def _told(sent: RDD[Sent]) -> list[Any]:
    """What is for the driver goes the way of the first task, so the others need not run."""
    return sent.context.runJob(sent, told, [0])


def _shown(parts: Iterable[DescriptorPart]) -> Iterator[ShownRows]:
    for part in parts:
        yield from part.shown()


def _table(graph: bytes) -> pa.Table:
    with pa.ipc.open_stream(graph) as reader:
        return reader.read_all()
