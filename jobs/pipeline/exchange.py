"""Work for tasks as DataFrames of blocks: units in, one exchange between, values out.

A row is a block: a pickled value and the cell that it belongs to. Blocks are few and hold whole
arrays, so Spark moves them at the speed of bytes.

A task that fails with an error of ours sends it as a block, and the driver raises it. Spark
repeats tasks for every other error.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.spark_messages import described
from schemas import errors
from schemas.errors import SpapsError
from spatial_udfs.bulk.partition_keys import partition_keys

CELL: Final = "cell"
BLOCK: Final = "block"
BLOCK_TYPES: Final = f"{CELL} int, {BLOCK} binary"
# A value for the driver: tasks behind an exchange hand it on.
DRIVER: Final = -1

# A value and the cell that it goes to.
Sent: TypeAlias = tuple[int, Any]
# From one unit of work to what it sends.
UnitTask: TypeAlias = Callable[[Any], Iterable[Sent]]
# From the number of a cell and all that came to it to what it sends.
CellTask: TypeAlias = Callable[[int, list[Any]], Iterable[Sent]]
BatchTask: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# So many rows are worth a task of their own.
ROWS_IN_TASK: Final = 4_000_000

_ROWS_IN_BATCH: Final = 64
_BYTES_IN_BATCH: Final = 8 << 20


class Failure(NamedTuple):
    """An error of ours, on its way to the driver."""

    kind: str
    text: str


class Tasks:
    """Runs tasks in a session, in as many partitions as the work is worth.

    A task of Python costs some tenths of a second before it begins, so small work is done by few
    tasks.
    """

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        self.spark = spark
        self.parallelism = parallelism
        self.rows_in_task = ROWS_IN_TASK

    def partitions(self, count: int, size: int) -> int:
        """Return how many tasks share so many pieces of work, which have about ``size`` rows."""
        return max(1, min(count, -(-size // self.rows_in_task)))

    def units(self, task: UnitTask, work: Sequence[Any], size: int = 0) -> DataFrame:
        """Return the blocks that the task sends for each unit of work."""
        if not work:
            return self.spark.createDataFrame([], BLOCK_TYPES)
        numbers = self.spark.range(0, len(work), 1, self.partitions(len(work), size))
        return numbers.mapInArrow(_unit_batches(task, work), BLOCK_TYPES)

    def cells(self, blocks: DataFrame, task: CellTask, count: int, size: int = 0) -> DataFrame:
        """Return what the task sends for each of ``count`` cells, when its blocks are together."""
        partitions = self.partitions(count, size)
        return divided(blocks, CELL, partitions).mapInArrow(_cell_batches(task), BLOCK_TYPES)

    def exchanged(
        self, send: UnitTask, work: Sequence[Any], receive: CellTask, count: int, size: int = 0
    ) -> DataFrame:
        """Return what ``receive`` sends for each cell, of all that ``send`` sends to it.

        What one task does alone needs no exchange.
        """
        if self.partitions(max(count, len(work)), size) > 1:
            return self.cells(self.units(send, work, size), receive, count, size)
        return self.units(in_one_task(send, receive), [work] if work else [])

    def values(self, blocks: DataFrame, what: str) -> list[Any]:
        """Run it, under a name that the Spark UI shows, and return all values."""
        with described(self.spark, what):
            found = [pickle.loads(row[0]) for row in blocks.select(BLOCK).collect()]  # noqa: S301
        return _without_failures(found)

    def run(self, task: UnitTask, work: Sequence[Any], what: str, size: int = 0) -> list[Any]:
        """Run the task for each unit, without an exchange, and return all values."""
        return self.values(self.units(task, work, size), what) if work else []


def divided(rows: DataFrame, number: str, partitions: int) -> DataFrame:
    """Bring rows with an equal number together; each partition gets equally many numbers."""
    # What Spark's hash brings to each partition.
    keys = F.array(*(F.lit(int(key)) for key in partition_keys(partitions)))
    return rows.repartition(partitions, F.element_at(keys, F.pmod(number, F.lit(partitions)) + 1))


def batches_of(sent: Iterable[Sent]) -> Iterator[pa.RecordBatch]:
    """Return values and their cells as rows of BLOCK_TYPES."""
    cells: list[int] = []
    blocks: list[bytes] = []
    size = 0
    for cell, value in _with_failures(sent):
        cells.append(cell)
        blocks.append(pickle.dumps(value, protocol=5))
        size += len(blocks[-1])
        if len(blocks) == _ROWS_IN_BATCH or size > _BYTES_IN_BATCH:
            yield _batch(cells, blocks)
            cells, blocks, size = [], [], 0
    if blocks:
        yield _batch(cells, blocks)
    # Spark's worker has Python look at its path anew before each task. Python 3.11 and 3.12 read
    # the contents of each archive for that, a tenth of a second, unless they have forgotten it.
    sys.path_importer_cache.clear()


def in_one_task(send: UnitTask, receive: CellTask) -> UnitTask:
    """The task that sends, and receives what it has sent."""

    def run(work: Iterable[Any]) -> Iterator[Sent]:
        cells: dict[int, list[Any]] = {}
        for cell, value in chain.from_iterable(map(send, work)):
            if cell == DRIVER:
                yield cell, value
            else:
                cells.setdefault(cell, []).append(value)
        for cell in sorted(cells):
            yield from receive(cell, cells.pop(cell))

    return run


def _unit_batches(task: UnitTask, work: Sequence[Any]) -> BatchTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
        yield from batches_of(chain.from_iterable(task(work[number]) for number in numbers))

    return run


def _cell_batches(task: CellTask) -> BatchTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cells: dict[int, list[Any]] = {}
        for batch in batches:
            for cell, block in zip(
                batch.column(CELL).to_pylist(), batch.column(BLOCK), strict=True
            ):
                value = pickle.loads(block.as_buffer())  # noqa: S301 - our tasks' own
                cells.setdefault(cell, []).append(value)
        for_driver = cells.pop(DRIVER, [])
        yield from batches_of((DRIVER, value) for value in for_driver)
        yield from batches_of(
            chain.from_iterable(task(cell, cells.pop(cell)) for cell in sorted(cells))
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


def _batch(cells: list[int], blocks: list[bytes]) -> pa.RecordBatch:
    columns = [pa.array(cells, pa.int32()), pa.array(blocks, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[CELL, BLOCK])
