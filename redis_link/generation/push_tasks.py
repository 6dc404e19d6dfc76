"""The tasks of a push: read files or rows, write blocks to Redis, read shards back.

Each is a function from Arrow batches to Arrow batches, for ``DataFrame.mapInArrow``. A repeated
task does no harm: it writes the same members into the same sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from redis_link.connection.client import connect
from redis_link.generation.generation_losses import LossBase, Losses, read_back
from redis_link.generation.push_lock import PushToken, fenced_writer
from redis_link.sets.pair_arrays import Int64s, Tally, tally_of
from redis_link.sets.pair_blocks import (
    TaskError,
    block_rows,
    error_row,
    joined_blocks,
    received_blocks,
)
from schemas.errors import GenerationError, SpapsError
from schemas.redis_keys import SHARD_COUNT

PAIRS_PACKED_AT_ONCE: Final = 1_000_000
PAIRS_WRITTEN_AT_ONCE: Final = 250_000

# Reads a share of the pairs (peids, subIds), and checks columns that should be pairs.
ReadShare: TypeAlias = Callable[[Any], Iterator[tuple[Int64s, Int64s]]]
CheckPairs: TypeAlias = Callable[[pa.Array, pa.Array], tuple[Int64s, Int64s]]
ArrowTask: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

RESULT_COLUMNS: Final = (
    "received long, pairs long, peids long, high long, low long, "
    "entities long, entitiesGone long, members long, membersGone long, "
    "kind string, reason string"
)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one writing or reading task did; ``losses`` against the generation in force."""

    received: int = 0
    tally: Tally = field(default_factory=Tally)
    losses: Losses = field(default_factory=Losses)
    error: TaskError | None = None

    def batch(self) -> pa.RecordBatch:
        """Return the result as the one row that the task gives."""
        tally, losses = self.tally, self.losses
        numbers = [
            self.received, tally.pairs, tally.peids, tally.high, tally.low,
            losses.entities, losses.entities_gone, losses.members, losses.members_gone,
        ]  # fmt: skip
        texts = (self.error.kind, self.error.reason) if self.error else (None, None)
        arrays = [pa.array([number], pa.int64()) for number in numbers]
        arrays += [pa.array([text], pa.string()) for text in texts]
        names = [column.split()[0] for column in RESULT_COLUMNS.split(", ")]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> TaskResult:
        """Return the result that a row of RESULT_COLUMNS holds."""
        error = None if row[9] is None else TaskError(row[9], row[10])
        return cls(row[0], Tally(*row[1:5]), Losses(*row[5:9]), error)


def file_task(read_share: ReadShare, shares: Sequence[Any], blocks: int) -> ArrowTask:
    """Return the task that reads its share of the files, given the number of the share."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for number in _numbers(batches):
                for peids, sub_ids in read_share(shares[number]):
                    yield block_rows(peids, sub_ids, blocks)
        except SpapsError as error:
            yield error_row(error)

    return read


def row_task(usable: CheckPairs, blocks: int) -> ArrowTask:
    """Return the task that takes rows (peid, subId) which Spark has read."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        try:
            for batch in batches:
                held.append(batch)
                if sum(each.num_rows for each in held) >= PAIRS_PACKED_AT_ONCE:
                    yield block_rows(*usable(*_columns_of(held)), blocks)
                    held = []
            if held:
                yield block_rows(*usable(*_columns_of(held)), blocks)
        except SpapsError as error:
            yield error_row(error)

    return pack


def writing_task(redis_url: str, token: PushToken) -> ArrowTask:
    """Return the task that writes whole blocks; it gives what it received and what it wrote."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks, error = received_blocks(batches)
        received = sum(block.tally.pairs for block in blocks.values())
        written = Tally()
        if blocks and error is None:
            try:
                with closing(connect(redis_url)) as client, fenced_writer(client, token) as writer:
                    for peids, sub_ids, told in joined_blocks(blocks, PAIRS_WRITTEN_AT_ONCE):
                        found = writer.write(peids, sub_ids)
                        _compare(told, found, peids, sub_ids)
                        written += found
            except SpapsError as failed:
                error = TaskError.of(failed)
        yield TaskResult(received, written, error=error).batch()

    return write


def reading_task(redis_url: str, generation: int, base: LossBase | None, tasks: int) -> ArrowTask:
    """Return the task that reads its shards back, given the number of the task.

    It compares them with ``base``, the generation in force, if there is one.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally, losses, error = Tally(), Losses(), None
        try:
            with closing(connect(redis_url)) as client:
                for number in _numbers(batches):
                    shards = range(number, SHARD_COUNT, tasks)
                    found, lacking = read_back(client, generation, shards, base)
                    tally, losses = tally + found, losses + lacking
        except SpapsError as failed:
            error = TaskError.of(failed)
        yield TaskResult(0, tally, losses, error).batch()

    return read


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Yield the numbers of a DataFrame of one column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _columns_of(batches: list[pa.RecordBatch]) -> tuple[pa.Array, pa.Array]:
    table = pa.Table.from_batches(batches).combine_chunks()
    peids, sub_ids = (column.combine_chunks() for column in table.columns)
    return peids, sub_ids


def _compare(told: Tally, written: Tally, peids: Int64s, sub_ids: Int64s) -> None:
    """Require that what came is what the readers sent.

    Where no pair came twice, what came is what was written, and needs no tally of its own.
    """
    came = written if written.pairs == len(peids) else tally_of(peids, sub_ids, 0)
    if (told.pairs, told.checksum()) != (came.pairs, came.checksum()):
        raise GenerationError(
            f"a writer received {came.pairs:,} rows with checksum {came.checksum()} "
            f"instead of {told.pairs:,} with {told.checksum()}"
        )
