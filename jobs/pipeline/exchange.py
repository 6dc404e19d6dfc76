"""Work for tasks as DataFrames of blocks: units in, one exchange between, values out.

A row is a block: a pickled value and the cell that it belongs to. Blocks are few and hold whole
arrays, so Spark moves them at the speed of bytes. The column TARGET is what Spark partitions by.
Its values are chosen so that each partition gets the same number of cells.

A task that fails with an error of ours sends it as a block, and the driver raises it. Spark
repeats tasks for every other error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from schemas import errors
from schemas.errors import SpapsError

TARGET: Final = "target"
BLOCK: Final = "block"
BLOCK_TYPES: Final = f"{TARGET} int, {BLOCK} binary"
# A value for the driver: tasks behind an exchange hand it on.
DRIVER: Final = -1

# A value and the cell that it goes to.
Sent: TypeAlias = tuple[int, Any]
# From one unit of work to what it sends.
UnitTask: TypeAlias = Callable[[Any], Iterable[Sent]]
# From the number of a cell and all that came to it to what it sends.
CellTask: TypeAlias = Callable[[int, list[Any]], Iterable[Sent]]
BatchTask: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ROWS_IN_BATCH: Final = 64
_BYTES_IN_BATCH: Final = 8 << 20


class Failure(NamedTuple):
    """An error of ours, on its way to the driver."""

    kind: str
    text: str


class Tasks:
    """Runs tasks in a session, with as many partitions as it has room for."""

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        self.spark = spark
        self.parallelism = parallelism
        # Several for each core, so that a slow one does not hold up the others.
        self.most = 4 * parallelism

    def units(self, task: UnitTask, work: Sequence[Any], *, partitions: int = 0) -> DataFrame:
        """Return the blocks that the task sends for each unit of work."""
        count = min(len(work), partitions or self.most)
        if not count:
            return self.spark.createDataFrame([], BLOCK_TYPES)
        numbers = self.spark.range(0, len(work), 1, count)
        return numbers.mapInArrow(_unit_batches(task, work, partitions or self.most), BLOCK_TYPES)

    def cells(self, blocks: DataFrame, task: CellTask, count: int) -> DataFrame:
        """Return what the task sends for each of ``count`` cells, when its blocks are together."""
        partitions = max(1, min(count, self.most))
        exchanged = blocks.repartition(partitions, TARGET)
        return exchanged.mapInArrow(_cell_batches(task, self.most), BLOCK_TYPES)

    def values(self, blocks: DataFrame, what: str) -> list[Any]:
        """Run it, under a tag that the Spark UI shows, and return all values."""
        with tagged(self.spark, what):
            found = [pickle.loads(row[0])[1] for row in blocks.select(BLOCK).collect()]  # noqa: S301
        return _without_failures(found)

    def run(self, task: UnitTask, work: Sequence[Any], what: str) -> list[Any]:
        """Run the task for each unit, without an exchange, and return all values."""
        return self.values(self.units(task, work), what) if work else []


def parallelism_of(spark: SparkSession) -> int:
    """Return how many tasks run at once, as far as Spark knows: its default number of parts.

    The workers of Python that it starts are there when the first step begins.
    """
    return len(spark.range(0, 4096).mapInArrow(_one_row, "part int").collect())


def _one_row(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_arrays([pa.array([0], pa.int32())], names=["part"])


@contextmanager
def tagged(spark: SparkSession, what: str) -> Iterator[None]:
    """Give the operations that this thread starts a tag, which the Spark UI shows."""
    tag = what.replace(",", "")
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def batches_of(sent: Iterable[Sent], partitions: int) -> Iterator[pa.RecordBatch]:
    """Return values and their cells as rows of BLOCK_TYPES."""
    keys = partition_keys(partitions)
    targets: list[int] = []
    blocks: list[bytes] = []
    size = 0
    for cell, value in _with_failures(sent):
        targets.append(int(keys[cell % partitions]))
        blocks.append(pickle.dumps((cell, value), protocol=5))
        size += len(blocks[-1])
        if len(blocks) == _ROWS_IN_BATCH or size > _BYTES_IN_BATCH:
            yield _batch(targets, blocks)
            targets, blocks, size = [], [], 0
    if blocks:
        yield _batch(targets, blocks)


@cache
def partition_keys(partitions: int) -> NDArray[np.int32]:
    """Return an integer for each partition that Spark's hash brings there.

    Spark documents the hash as ``hash``: Murmur3. If it ever changes, partitions get unequal
    numbers of cells, and results stay the same.
    """
    candidates = np.arange(max(64, 16 * partitions), dtype=np.int32)
    while True:
        owners = spark_hash(candidates) % partitions
        found, first = np.unique(owners, return_index=True)
        if len(found) == partitions:
            return candidates[first]
        candidates = np.arange(2 * len(candidates), dtype=np.int32)


def spark_hash(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return what Spark's ``hash`` gives for integers: Murmur3 with the seed 42."""
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
        mixed = _rotated(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
        mixed ^= np.uint32(4)
        mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (mixed ^ (mixed >> np.uint32(16))).astype(np.int32)


def _rotated(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    found: NDArray[np.uint32] = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return found


def _unit_batches(task: UnitTask, work: Sequence[Any], partitions: int) -> BatchTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        yield from batches_of(
            chain.from_iterable(task(work[number]) for number in numbers), partitions
        )

    return run


def _cell_batches(task: CellTask, partitions: int) -> BatchTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cells: dict[int, list[Any]] = {}
        for batch in batches:
            for block in batch.column(BLOCK):
                cell, value = pickle.loads(block.as_buffer())  # noqa: S301 - our tasks' own
                cells.setdefault(cell, []).append(value)
        for_driver = cells.pop(DRIVER, [])
        yield from batches_of(((DRIVER, value) for value in for_driver), partitions)
        yield from batches_of(
            chain.from_iterable(task(cell, cells.pop(cell)) for cell in sorted(cells)), partitions
        )

    return run


def _with_failures(sent: Iterable[Sent]) -> Iterator[Sent]:
    try:
        yield from sent
    except SpapsError as error:
        yield DRIVER, Failure(type(error).__name__, str(error))


def _without_failures(values: list[Any]) -> list[Any]:
    for value in values:
        if isinstance(value, Failure):
            raise _error_of(value)
    return values


def _error_of(failure: Failure) -> SpapsError:
    kind = getattr(errors, failure.kind, SpapsError)
    # Errors with facts of their own are made of more than a text.
    plain = kind if kind.__init__ is SpapsError.__init__ else SpapsError
    error: SpapsError = plain(failure.text)
    return error


def _batch(targets: list[int], blocks: list[bytes]) -> pa.RecordBatch:
    columns = [pa.array(targets, pa.int32()), pa.array(blocks, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[TARGET, BLOCK])
