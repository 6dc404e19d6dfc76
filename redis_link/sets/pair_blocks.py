"""Blocks of pairs as Arrow rows: the form in which a push sends them through Spark's shuffle.

A block is a range of shards, so all pairs of an entity are in one block. A row holds pairs of one
block as the bytes of two arrays, with the count and the checksum that its reader took. 25 million
pairs are some thousand rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from redis_link.sets.pair_arrays import Int64s, Tally, by_block, tally_of
from schemas.errors import SpapsError

BLOCK: Final = "block"
# An error of ours is a row too: Spark would repeat the task, and report it as a stack trace.
_ERROR_FIELDS: Final = (("kind", pa.string()), ("reason", pa.string()))
BLOCK_SCHEMA: Final = pa.schema(
    [
        (BLOCK, pa.int32()), ("peids", pa.binary()), ("subIds", pa.binary()),
        ("pairs", pa.int64()), ("high", pa.int64()), ("low", pa.int64()), *_ERROR_FIELDS,
    ]
)  # fmt: skip
BLOCK_COLUMNS: Final = (
    "block int, peids binary, subIds binary, pairs long, high long, low long, "
    "kind string, reason string"
)


@dataclass(frozen=True, slots=True)
class TaskError:
    """An error of ours in a task: the name of its class, and its text."""

    kind: str
    reason: str

    @classmethod
    def of(cls, error: SpapsError) -> TaskError:
        """Return the error as a task reports it."""
        return cls(type(error).__name__, str(error))


def block_rows(peids: Int64s, sub_ids: Int64s, blocks: int) -> pa.RecordBatch:
    """Return the pairs as one row for each block that has any."""
    parts = list(by_block(peids, sub_ids, blocks))
    tallies = [tally_of(block_peids, block_sub_ids, 0) for _, block_peids, block_sub_ids in parts]
    numbers = [[tally.pairs, tally.high, tally.low] for tally in tallies]
    columns = [
        pa.array([block for block, _, _ in parts], pa.int32()),
        _bytes_of([block_peids for _, block_peids, _ in parts]),
        _bytes_of([block_sub_ids for _, _, block_sub_ids in parts]),
        *(pa.array([row[at] for row in numbers], pa.int64()) for at in range(3)),
        *(pa.nulls(len(parts), kind) for _, kind in _ERROR_FIELDS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BLOCK_SCHEMA)


def _bytes_of(arrays: list[Int64s]) -> pa.BinaryArray:
    """Return the bytes of each array, with one copy and no Python object for them."""
    ends = np.cumsum([0, *(array.nbytes for array in arrays)]).astype(np.int32)
    data = np.concatenate([np.empty(0, np.int64), *arrays])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(arrays), buffers)


def error_row(error: SpapsError) -> pa.RecordBatch:
    """Return an error as a row of some block; the task that writes that block reports it."""
    told = TaskError.of(error)
    return pa.RecordBatch.from_pylist(
        [{BLOCK: 0, "kind": told.kind, "reason": told.reason}], BLOCK_SCHEMA
    )


@dataclass(slots=True)
class ReceivedBlock:
    """The pairs of a block as they arrive, and the tally that their readers took."""

    peids: list[Int64s] = field(default_factory=list)
    sub_ids: list[Int64s] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)


def received_blocks(
    batches: Iterable[pa.RecordBatch],
) -> tuple[dict[int, ReceivedBlock], TaskError | None]:
    """Return the blocks of a task, and the first error that a reader reported."""
    blocks: dict[int, ReceivedBlock] = {}
    found: TaskError | None = None
    for batch in batches:
        numbers, peids, sub_ids, pairs, high, low, kinds, reasons = batch.columns
        for row, block in enumerate(numbers.to_pylist()):
            if kinds[row].is_valid:
                found = found or TaskError(kinds[row].as_py(), reasons[row].as_py())
                continue
            kept = blocks.setdefault(block, ReceivedBlock())
            kept.peids.append(np.frombuffer(peids[row].as_buffer(), np.int64))
            kept.sub_ids.append(np.frombuffer(sub_ids[row].as_buffer(), np.int64))
            kept.tally += Tally(pairs[row].as_py(), 0, high[row].as_py(), low[row].as_py())
    return blocks, found


def joined_blocks(
    blocks: dict[int, ReceivedBlock], pairs_at_once: int
) -> Iterator[tuple[Int64s, Int64s, Tally]]:
    """Yield whole blocks together, as many as have about so many pairs; ``blocks`` gets empty."""
    joined = ReceivedBlock()
    for block in sorted(blocks):
        more = blocks.pop(block)
        joined.peids += more.peids
        joined.sub_ids += more.sub_ids
        joined.tally += more.tally
        if joined.tally.pairs >= pairs_at_once or not blocks:
            yield np.concatenate(joined.peids), np.concatenate(joined.sub_ids), joined.tally
            joined = ReceivedBlock()
