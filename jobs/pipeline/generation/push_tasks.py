"""What executors do in a push: read, write, read back.

Pairs travel between them as whole arrays, cut into blocks of shards: 25 million pairs are some
thousand values for the shuffle. Each part carries what its reader counted of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from jobs.pipeline.lake_tables import LakeTable
from jobs.pipeline.memberships.membership_parts import FilePart, read_parts, usable_pairs
from redis_link.connection.client import connect
from redis_link.generation.fenced_writer import fenced_writer
from redis_link.generation.generation_push import PushToken
from redis_link.sets.pair_arrays import Int64s, Tally, by_block, tally_of
from redis_link.sets.set_reader import read_shards
from schemas.errors import GenerationError

PAIRS_PACKED_AT_ONCE: Final = 1_000_000
PACKED_SCHEMA: Final = (
    "block int, peids binary, sub_ids binary, pairs long, entities long, high long, low long"
)


class PackedPairs(NamedTuple):
    """Pairs as the bytes of two arrays, and their tally."""

    peids: bytes
    sub_ids: bytes
    tally: Tally

    @classmethod
    def of_row(cls, row: tuple[bytes, bytes, int, int, int, int]) -> PackedPairs:
        """Out of a row that Spark has carried, without its block."""
        return cls(row[0], row[1], Tally(*row[2:]))


Block: TypeAlias = tuple[int, PackedPairs]


def file_task(table: LakeTable, blocks: int) -> Callable[[Iterable[FilePart]], Iterator[Block]]:
    """The task that reads parts of files."""

    def read(parts: Iterable[FilePart]) -> Iterator[Block]:
        for peids, sub_ids in read_parts(table, list(parts)):
            yield from _packed(peids, sub_ids, blocks)

    return read


def row_task(
    blocks: int,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task that takes rows (peid, subId) from Spark; it gives rows of PACKED_SCHEMA."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= PAIRS_PACKED_AT_ONCE:
                yield _packed_batch(held, blocks)
                held = []
        if held:
            yield _packed_batch(held, blocks)

    return pack


def writing_task(
    redis_url: str, token: PushToken
) -> Callable[[Iterable[Block]], Iterator[tuple[Tally, Tally]]]:
    """The task that writes whole blocks; it gives what it received and what it wrote."""

    def write(parts: Iterable[Block]) -> Iterator[tuple[Tally, Tally]]:
        blocks: dict[int, list[PackedPairs]] = {}
        for block, packed in parts:
            blocks.setdefault(block, []).append(packed)
        received = written = Tally()
        with closing(connect(redis_url)) as client, fenced_writer(client, token) as writer:
            for block in sorted(blocks):
                peids, sub_ids, told = _unpacked(blocks.pop(block))
                found = writer.write(peids, sub_ids)
                _compare(told, found, peids, sub_ids)
                received += told
                written += found
        yield received, written

    return write


def reading_task(redis_url: str, generation: int) -> Callable[[Iterable[int]], Iterator[Tally]]:
    """The task that reads shards back, given their numbers; it gives what Redis holds."""

    def read(shards: Iterable[int]) -> Iterator[Tally]:
        with closing(connect(redis_url)) as client:
            parts = read_shards(client, generation, shards)
            yield sum((members.tally() for members in parts), Tally())

    return read


def _packed(peids: Int64s, sub_ids: Int64s, blocks: int) -> Iterator[Block]:
    for block, block_peids, block_sub_ids in by_block(peids, sub_ids, blocks):
        tally = tally_of(block_peids, block_sub_ids, 0)
        yield block, PackedPairs(block_peids.tobytes(), block_sub_ids.tobytes(), tally)


def _packed_batch(batches: list[pa.RecordBatch], blocks: int) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks()
    peids, sub_ids = (column.combine_chunks() for column in table.columns)
    rows = [
        (block, each.peids, each.sub_ids, each.tally.pairs, 0, each.tally.high, each.tally.low)
        for block, each in _packed(*usable_pairs(peids, sub_ids), blocks)
    ]
    types = (pa.int32(), pa.binary(), pa.binary(), *(pa.int64() for _ in range(4)))
    names = [field.split()[0] for field in PACKED_SCHEMA.split(", ")]
    arrays = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(types)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _unpacked(parts: list[PackedPairs]) -> tuple[Int64s, Int64s, Tally]:
    peids = np.frombuffer(b"".join(part.peids for part in parts), np.int64)
    sub_ids = np.frombuffer(b"".join(part.sub_ids for part in parts), np.int64)
    return peids, sub_ids, sum((part.tally for part in parts), Tally())


def _compare(told: Tally, written: Tally, peids: Int64s, sub_ids: Int64s) -> None:
    """What came is what the readers sent. Where no pair came twice, that is what was written."""
    came = written if written.pairs == len(peids) else tally_of(peids, sub_ids, 0)
    if (told.pairs, told.checksum()) != (came.pairs, came.checksum()):
        raise GenerationError(
            f"a writer received {came.pairs:,} rows with checksum {came.checksum()} "
            f"instead of {told.pairs:,} with {told.checksum()}"
        )
