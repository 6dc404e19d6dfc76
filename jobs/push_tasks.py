"""What executors do in a push, as functions from Arrow batches to Arrow batches.

Rows cross from Spark to Python three times, and only the first time one by one: packed into
one binary value for each shard, 25 million pairs are some thousand rows for the shuffle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from redis_link.client import connect
from redis_link.generation_push import FencedWriter, PushTicket
from redis_link.pair_arrays import by_shard
from redis_link.set_reader import read_shards
from redis_link.shard_pipe import ShardPipe
from redis_link.tally import Int64s, Tally, tally_of

# Spark gives an iterator and takes one; its annotations say Iterable.
Batches: TypeAlias = Iterable[pa.RecordBatch]
Task: TypeAlias = Callable[[Batches], Batches]

PAIRS_PACKED_AT_ONCE: Final = 1_000_000
PAIRS_WRITTEN_AT_ONCE: Final = 500_000

SHARD: Final = "shard"
PACKED_SCHEMA: Final = f"{SHARD} int, peids binary, sub_ids binary"
RECEIVED_COLUMNS: Final = ("received_pairs", "received_high", "received_low")
TALLY_COLUMNS: Final = ("pairs", "peids", "high", "low")


def forget_archives() -> None:
    """Spare the next task of this worker the listing of pyspark.zip.

    Before each task Spark makes Python look anew at all that it imports from, which lists that
    archive once for each of its folders: a tenth of a second and more. What is dropped here
    comes back by itself when something is imported from there.
    """
    for path in [path for path in sys.path_importer_cache if ".zip" in path or ".jar" in path]:
        sys.path_importer_cache.pop(path)


def pack_pairs(batches: Batches) -> Batches:
    """Rows (peid, subId) into rows (shard, peids, subIds) with the arrays as bytes."""
    forget_archives()
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.num_rows
        if size >= PAIRS_PACKED_AT_ONCE:
            yield _packed(held)
            held, size = [], 0
    if size:
        yield _packed(held)


def writing_task(redis_url: str, ticket: PushTicket) -> Task:
    """The task that writes packed pairs; it gives what it received and what it wrote."""

    def write(batches: Batches) -> Batches:
        forget_archives()
        received = written = Tally()
        with closing(connect(redis_url)) as client, ShardPipe(client) as pipe:
            writer = FencedWriter(client, pipe, ticket)
            for peids, sub_ids in _whole_shards(batches):
                received += tally_of(peids, sub_ids, 0)
                written += writer.write(peids, sub_ids)
        values = (received.pairs, received.high, received.low, *_values(written))
        yield _row((*RECEIVED_COLUMNS, *TALLY_COLUMNS), values)

    return write


def reading_task(redis_url: str, generation: int) -> Task:
    """The task that reads shards back, given their numbers; it gives what Redis holds."""

    def read(batches: Batches) -> Batches:
        forget_archives()
        found = Tally()
        with closing(connect(redis_url)) as client:
            for batch in batches:
                for members in read_shards(client, generation, batch.column(0).to_pylist()):
                    found += members.tally()
        yield _row(TALLY_COLUMNS, _values(found))

    return read


def _packed(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    peids, sub_ids = (table.column(at).to_numpy() for at in (0, 1))
    shards, packed_peids, packed_sub_ids = [], [], []
    for shard, shard_peids, shard_sub_ids in by_shard(peids, sub_ids):
        shards.append(shard)
        packed_peids.append(shard_peids.tobytes())
        packed_sub_ids.append(shard_sub_ids.tobytes())
    return pa.RecordBatch.from_arrays(
        [pa.array(shards, pa.int32()), pa.array(packed_peids), pa.array(packed_sub_ids)],
        names=[SHARD, "peids", "sub_ids"],
    )


def _whole_shards(batches: Batches) -> Iterator[tuple[Int64s, Int64s]]:
    """All pairs of one shard after the other, several small shards at a time."""
    by_number: dict[int, list[tuple[bytes, bytes]]] = {}
    for batch in batches:
        for shard, peids, sub_ids in zip(*(column.to_pylist() for column in batch.columns),
                                         strict=True):  # fmt: skip
            by_number.setdefault(shard, []).append((peids, sub_ids))
    held: list[tuple[bytes, bytes]] = []
    size = 0
    for shard in list(by_number):
        parts = by_number.pop(shard)
        held += parts
        size += sum(len(peids) for peids, _ in parts)
        if size >= PAIRS_WRITTEN_AT_ONCE * 8 or not by_number:
            yield _unpacked(peids for peids, _ in held), _unpacked(subs for _, subs in held)
            held, size = [], 0


def _unpacked(parts: Iterable[bytes]) -> Int64s:
    return np.frombuffer(b"".join(parts), np.int64)


def _values(tally: Tally) -> tuple[int, ...]:
    return (tally.pairs, tally.peids, tally.high, tally.low)


def _row(names: tuple[str, ...], values: tuple[int, ...]) -> pa.RecordBatch:
    arrays: list[Any] = [pa.array([value], pa.int64()) for value in values]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
