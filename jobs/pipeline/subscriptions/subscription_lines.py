"""Where the subscriptions of a run are, and how tasks read them: as parts of arrays.

They come as JSON lines (a file or a folder of them) or as a Delta table, or the driver holds
them; registered ones are in ``jobs/pipeline/subscriptions/registered_subscriptions.py``. Opening
looks at names and sizes alone: ``jobs/pipeline/subscriptions/snapshot.py`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession

from jobs.pipeline.lake_tables import LakeTable, lake_table
from jobs.pipeline.spark_errors import spark_errors_as
from jobs.pipeline.storage_credentials import LOCAL
from jobs.pipeline.subscriptions.jsonl_fast_path import LINES_IN_RANGE, parts_of_range
from jobs.pipeline.subscriptions.line_ranges import (
    LineRange,
    blocks_of,
    line_files,
    line_ranges,
)
from jobs.pipeline.subscriptions.subscription_parts import (
    Int64s,
    PartFacts,
    SubscriptionPart,
    part_of_texts,
)
from jobs.pipeline.subscriptions.subscription_tables import (
    SubscriptionTable,
    open_table,
    parts_of_files,
    rows_by_spark,
)
from schemas.errors import SourceError

WHERE: Final = "where"  # string: the line, for a person
REASON: Final = "reason"  # string: what is wrong, for a person

ROWS_IN_PART: Final = 100_000
ROOT: Final = f"{LOCAL}/"
_PATTERN: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """How a person finds a bad row again: by its line, or where rows have none by its number."""

    names: tuple[str, ...] = ()  # of the file, for each range of lines
    lines_before: tuple[int, ...] = ()  # in the same file

    def where(self, place: int, sub_id: int | None) -> str:
        """Return the place in words."""
        if not self.names:
            return f"subId {'null' if sub_id is None else sub_id}"
        number, line = divmod(place, LINES_IN_RANGE)
        return f"{self.names[number]} line {self.lines_before[number] + line + 1}"


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions that tasks can read.

    ``shares`` cuts them for so many tasks at once, and ``read`` reads a share in a task. Those in
    ``held`` are with the driver; those in ``rows`` (a column of pickled parts) only Spark reads.
    """

    source: str  # for a person
    shares: Callable[[int], Sequence[Any]] = lambda _: ()
    read: Callable[[Any], Iterator[SubscriptionPart]] = iter
    held: tuple[SubscriptionPart, ...] = ()
    rows: DataFrame | None = None
    # A number that is used twice counts where it is first. A table has no order: there the
    # first by its text counts.
    by_text: bool = False
    numbers_differ: bool = False


def places_of(shares: Sequence[Any], facts: Iterable[PartFacts]) -> RowPlaces:
    """Return where rows stand, for files whose lines are counted by range."""
    ranges = [each for share in shares if isinstance(share, list) for each in share]
    counts = [0] * len(ranges)
    for part in facts if counts else ():
        counts[part.range_number] += part.lines
    before: list[int] = []
    for lines in ranges:
        goes_on = lines.start > 0
        before.append(before[-1] + counts[lines.number - 1] if goes_on else 0)
    names = tuple(lines.path.rpartition("/")[2] for lines in ranges)
    return RowPlaces(names, tuple(before))


def open_subscriptions(spark: SparkSession, path: str) -> Subscriptions:
    """Return the subscriptions of JSON lines (a file or a folder of them) or of a Delta table."""
    what = f"no subscriptions at {path}"
    try:
        with spark_errors_as(SourceError, what):
            at = lake_table(spark, path)
            folder, files = _files(at)
            if files is None:
                return _of_table(spark, open_table(at, path))
            if not files and folder != at:
                raise SourceError(f"{what}: nothing has that name")
            return _of_lines(folder, files, path)
    except (OSError, DeltaError, pa.ArrowException) as error:
        raise SourceError(f"{what}: {' '.join(str(error).split())}") from error


def subscriptions_of(
    spark: SparkSession,  # noqa: ARG001 - as for every other source
    sub_ids: Int64s,
    texts: pa.StringArray,
    source: str,
) -> Subscriptions:
    """Return subscriptions that the driver holds, each number once."""
    parts = tuple(
        part_of_texts(sub_ids[at : at + ROWS_IN_PART], texts[at : at + ROWS_IN_PART])
        for at in range(0, len(sub_ids), ROWS_IN_PART)
    )
    return Subscriptions(source, held=parts, numbers_differ=True)


def _files(at: LakeTable) -> tuple[LakeTable, list[pa_fs.FileInfo] | None]:
    """Return the files at the path, and their folder; None for a Delta table."""
    uri, _, name = at.uri.rpartition("/")
    # A whole store lies in nothing; what lies in the root of a disk does.
    around = replace(at, uri=ROOT if uri == LOCAL else uri)
    info = None if uri.endswith(":/") else around.store().get_file_info(name)
    if info is not None and info.type is pa_fs.FileType.File:
        return around, [info]
    if info is None or info.type is pa_fs.FileType.Directory:
        log = at.store().get_file_info("_delta_log")
        is_table = log.type is pa_fs.FileType.Directory
        return at, None if is_table else line_files(at.store(), "")
    # Not there, or a pattern for several files.
    return around, line_files(around.store(), "", name) if _PATTERN.search(name) else []


def _of_lines(folder: LakeTable, files: Sequence[pa_fs.FileInfo], path: str) -> Subscriptions:
    def read(share: list[LineRange]) -> Iterator[SubscriptionPart]:
        store = folder.store()
        with _read_errors(path):
            for lines in share:
                yield from parts_of_range(lines.number, blocks_of(store, lines))

    line_ranges(files, 1)  # what cannot be read is said here
    return Subscriptions(path, partial(line_ranges, files), read)


def _of_table(spark: SparkSession, table: SubscriptionTable) -> Subscriptions:
    if table.paths is None:
        return Subscriptions(table.path, rows=rows_by_spark(spark, table.path), by_text=True)
    paths = table.paths

    def read(share: tuple[str, ...]) -> Iterator[SubscriptionPart]:
        with _read_errors(table.path):
            yield from parts_of_files(table.at, share)

    def shares(at_once: int) -> list[tuple[str, ...]]:
        count = max(1, min(len(paths), at_once))
        return [paths[at::count] for at in range(count)]

    return Subscriptions(table.path, shares, read, by_text=True)


@contextmanager
def _read_errors(source: str) -> Iterator[None]:
    try:
        yield
    except (OSError, DeltaError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise SourceError(f"{source} cannot be read: {reason}") from error
