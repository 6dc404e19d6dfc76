"""Subscriptions of a run, read once: a task that is repeated sees the same ones.

They come as JSON lines (a file or a folder of them), as a Delta table, or out of the registry in
Redis. Opening looks at names and sizes alone. Tasks read the source into files of the scratch
folder. Of the subscriptions themselves nothing comes to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.pipeline.exchange import BLOCK_TYPES, DRIVER, ROWS_IN_TASK, Sent, Tasks, batches_of
from jobs.pipeline.spark_messages import spark_errors_as
from jobs.pipeline.table_places import lake_table
from redis_link.connection.client import connect
from redis_link.connection.url import masked
from redis_link.registry.registry_reader import registered_subscriptions, registry_coverage
from schemas.errors import SourceError
from schemas.generation import RegistryCoverage
from schemas.membership import DESCRIPTOR, SUB_ID
from spatial_udfs.batch.subscription_parts import (
    PartFacts,
    SubscriptionPart,
    by_number,
    each_once,
    facts_of,
    may_share_numbers,
    merged,
    part_of_texts,
)
from world.lake.lake_tables import LakeTable
from world.lake.scratch import Scratch
from world.subscriptions.jsonl_fast_path import RowPlaces, parts_of_range, places_of
from world.subscriptions.line_ranges import LineRange, blocks_of, files_at, line_ranges
from world.subscriptions.subscription_tables import (
    SubscriptionTable,
    check_columns,
    open_table,
    part_of_rows,
    parts_of_files,
    read_errors,
)

ROWS_IN_PART: Final = 100_000
# Up to so many subscriptions, and so many different descriptors, are taken apart by one task.
FEW_SUBSCRIPTIONS: Final = 1_000_000
FEW_TEXTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions that tasks can read.

    ``shares`` cuts them for so many tasks at once, and ``read`` reads a share in a task. Only
    Spark reads those in ``rows`` (SUB_ID and DESCRIPTOR).
    """

    source: str  # for a person
    shares: Callable[[int], Sequence[Any]] = lambda _: ()
    read: Callable[[Any], Iterator[SubscriptionPart]] = iter
    rows: DataFrame | None = None
    # A number that is used twice counts where it is first. A table has no order: there the
    # first by its text counts.
    by_text: bool = False
    numbers_differ: bool = False


class PartFile(NamedTuple):
    """A part of the subscriptions in a file of the scratch folder."""

    path: str
    facts: PartFacts


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The subscriptions of a run; each number is in one part."""

    files: tuple[PartFile, ...]
    places: RowPlaces
    by_text: bool

    @property
    def subscriptions(self) -> int:
        """How many were read."""
        return sum(file.facts.subscriptions for file in self.files)

    @property
    def texts(self) -> int:
        """How many different descriptors there are at the most."""
        return sum(file.facts.texts for file in self.files)

    @property
    def identity(self) -> str:
        """What equal subscriptions have in common, for the table of runs."""
        digest = sum(file.facts.digest for file in self.files) % 2**64
        return f"{self.subscriptions} subscriptions, {digest:016x}"

    @property
    def is_small(self) -> bool:
        """Whether one task can take all of them apart."""
        return self.subscriptions <= FEW_SUBSCRIPTIONS and self.texts <= FEW_TEXTS


def open_subscriptions(spark: SparkSession, path: str) -> Subscriptions:
    """Return the subscriptions of JSON lines (a file or a folder of them) or of a Delta table."""
    what = f"no subscriptions at {path}"
    try:
        with spark_errors_as(SourceError, what):
            at = lake_table(spark, path)
            folder, files = files_at(at)
            if files is None:
                return _of_table(spark, open_table(at, path))
            if not files and folder != at:
                raise SourceError(f"{what}: nothing has that name")
            return _of_lines(folder, files, path)
    except (OSError, DeltaError, pa.ArrowException) as error:
        raise SourceError(f"{what}: {' '.join(str(error).split())}") from error


def _of_lines(folder: LakeTable, files: Sequence[pa_fs.FileInfo], path: str) -> Subscriptions:
    def read(share: list[LineRange]) -> Iterator[SubscriptionPart]:
        store = folder.store()
        with read_errors(path):
            for lines in share:
                yield from parts_of_range(lines.number, blocks_of(store, lines))

    line_ranges(files, 1)  # what cannot be read is said here
    return Subscriptions(path, partial(line_ranges, files), read)


def _of_table(spark: SparkSession, table: SubscriptionTable) -> Subscriptions:
    if table.paths is None:
        return Subscriptions(table.path, rows=_rows_by_spark(spark, table.path), by_text=True)
    paths = table.paths

    def read(share: tuple[str, ...]) -> Iterator[SubscriptionPart]:
        with read_errors(table.path):
            yield from parts_of_files(table.at, share)

    def shares(at_once: int) -> list[tuple[str, ...]]:
        count = max(1, min(len(paths), at_once))
        return [paths[at::count] for at in range(count)]

    return Subscriptions(table.path, shares, read, by_text=True)


def _rows_by_spark(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of a table whose rows are not simply those of its files."""
    rows = spark.read.format("delta").load(path)
    check_columns(rows.columns, path)
    return rows.select(F.col(SUB_ID).cast("bigint"), F.col(DESCRIPTOR).cast("string"))


def open_registered(redis_url: str) -> tuple[Subscriptions, RegistryCoverage]:
    """Return all registered subscriptions, and what a generation of them covers."""
    with closing(connect(redis_url)) as client:
        coverage = registry_coverage(client)

    def read(_: int) -> Iterator[SubscriptionPart]:
        with closing(connect(redis_url)) as client:
            every = registered_subscriptions(client)
            # Brokers resolve those that come meanwhile, as later than the generation.
            registered = (each for each in every if each[0] <= coverage.up_to)
            while batch := list(islice(registered, ROWS_IN_PART)):
                sub_ids = np.array([sub_id for sub_id, _ in batch], np.int64)
                texts = pa.array([entry.descriptor for _, entry in batch], pa.string())
                yield part_of_texts(sub_ids, texts)

    # One task reads the registry: one hash, walked by one cursor, that gives each number once.
    source = masked(redis_url)
    return Subscriptions(source, lambda _: [0], read, numbers_differ=True), coverage


def snapshot(tasks: Tasks, scratch: Scratch, source: Subscriptions) -> Snapshot:
    """Read all subscriptions into the scratch folder."""
    shares = source.shares(tasks.parallelism)
    what = "read subscriptions"
    if source.rows is not None:
        files = tasks.values(source.rows.mapInArrow(_row_batches(scratch), BLOCK_TYPES), what)
    else:
        read = source.read

        def keep(share: Any) -> Iterator[Sent]:
            for part in read(share):
                yield DRIVER, _kept(scratch, part)

        files = tasks.run(keep, shares, what, len(shares) * ROWS_IN_TASK)
    places = places_of(shares, [file.facts for file in files])
    found = Snapshot(tuple(files), places, source.by_text)
    # One task that takes all of them apart sees by itself which come twice.
    may_come_twice = not source.numbers_differ and not found.is_small
    if may_come_twice and may_share_numbers(file.facts for file in files):
        once = _each_number_once(tasks, scratch, files, by_text=source.by_text)
        return replace(found, files=tuple(once))
    return found


def _kept(scratch: Scratch, part: SubscriptionPart) -> PartFile:
    return PartFile(scratch.put("part", part), facts_of(part))


def _row_batches(scratch: Scratch) -> Any:
    """The task for rows that Spark has read."""

    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = map(part_of_rows, batches)
        yield from batches_of((DRIVER, _kept(scratch, part)) for part in parts)

    return keep


def _each_number_once(
    tasks: Tasks, scratch: Scratch, files: Sequence[PartFile], *, by_text: bool
) -> list[PartFile]:
    """Bring equal numbers together, and leave the first of each."""
    size = sum(file.facts.subscriptions for file in files)
    count = tasks.partitions(len(files), size)

    def cut(file: PartFile) -> Iterator[Sent]:
        yield from by_number(scratch.get(file.path), count)

    def join(_: int, parts: list[SubscriptionPart]) -> Iterator[Sent]:
        yield DRIVER, _kept(scratch, each_once(merged(parts), by_text=by_text))

    joined = tasks.exchanged(cut, files, join, count, size)
    return tasks.values(joined, "compare subscription numbers")
