"""spark-submit jobs/push_to_redis.py --memberships DIR: memberships from Delta into Redis.

The executors write sets ``peid → {subId}`` as a new generation and read them back; only when
counts and checksum are those of the Delta table, Redis switches to it, in one step.

Exit codes: 0 done, 2 something is wrong and the old generation serves on, 3 another push runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.pipeline.generation.push_tasks import (
    PACKED_SCHEMA,
    Block,
    PackedPairs,
    file_task,
    reading_task,
    row_task,
    writing_task,
)
from jobs.pipeline.lake_tables import LakeTable
from jobs.pipeline.memberships.membership_parts import FilePart
from jobs.pipeline.memberships.memberships_table import OpenMemberships, Wanted, open_memberships
from jobs.pipeline.session import spark_session
from jobs.pipeline.spark_errors import raised_in_task, reason_of, spark_errors_as
from jobs.pipeline.stage_progress import stage_progress
from jobs.push_arguments import push_parser
from redis_link.connection.client import connect
from redis_link.connection.redis_choice import redis_or_embedded
from redis_link.connection.url import masked
from redis_link.generation.generation_push import (
    GenerationPush,
    PushReport,
    PushSource,
    StepClock,
    report_of,
)
from redis_link.generation.sweep import DEFAULT_RETENTION, Retention
from redis_link.sets.pair_arrays import Tally
from schemas.errors import EXIT_DONE, GenerationError, SourceError, exit_code_of
from schemas.generation import FROM_FILE, RegistryCoverage
from schemas.redis_keys import SHARD_COUNT
from schemas.settings import load_settings

WritingTask: TypeAlias = Callable[[Iterable[Block]], Iterator[tuple[Tally, Tally]]]
ReadingTask: TypeAlias = Callable[[Iterable[int]], Iterator[Tally]]

# What a task holds at once, and what it sorts and packs at once.
PAIRS_IN_TASK: Final = 2_000_000
PAIRS_IN_BLOCK: Final = 250_000
# Pairs are 16 bytes: Spark's default of 10,000 rows makes batches that cost more than they hold.
BATCH_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS_IN_BATCH: Final = "100000"


@spark_errors_as(GenerationError, "the push failed")
def push_generation(  # noqa: PLR0913  what a session does not say
    spark: SparkSession,
    memberships_path: str,
    wanted: Wanted | int | None,
    redis_url: str,
    *,
    coverage: RegistryCoverage = FROM_FILE,
    world: str = "",
    retention: Retention = DEFAULT_RETENTION,
    say: Callable[[str], None] = print,
    before_switch: Callable[[int], None] = lambda _: None,
) -> PushReport:
    """Push memberships as a new generation and switch to it.

    ``wanted`` says which: the commit of a run, or by a number the newest of that world version.
    ``coverage`` says which registered subscriptions were resolved, ``world`` is the id of the
    world that they were resolved on. ``before_switch`` gets the
    number of the generation when everything is written and compared. ``report.cleanup`` removes
    the replaced generation after the grace time: wait for it at the end of the job.
    """
    clock = StepClock()
    if not isinstance(wanted, Wanted):
        wanted = Wanted(wanted)
    opened = open_memberships(spark, memberships_path, wanted)
    client = connect(redis_url)
    what = f"push of {memberships_path}"
    source = PushSource(opened.version, what, coverage, opened.run, opened.state, world)
    clock.lap("open")
    with GenerationPush(client, source) as push:
        name = f"generation {push.token.generation}"
        if push.swept:
            left = ", ".join(map(str, push.swept))
            say(f"removed what killed pushes left of generation {left}")
        origin = f"run {opened.run or 'unknown'}, commit {opened.state}"
        say(
            f"{name}: memberships of world version {opened.version} ({origin}) "
            f"to {masked(redis_url)}"
        )
        with stage_progress(spark, "writing", say):
            written = _write(spark, opened, writing_task(redis_url, push.token), say)
        clock.lap("write")
        say(f"{name}: {written.pairs:,} pairs of {written.peids:,} entities written, reading back")
        with stage_progress(spark, "reading back", say):
            task = reading_task(redis_url, push.token.generation)
            found = _read_back(spark, written.pairs, task)
        clock.lap("verify")
        before_switch(push.token.generation)
        push.switch(written, found)
        clock.lap("switch")
    return report_of(client, push, clock.seconds, retention)


def _write(
    spark: SparkSession, opened: OpenMemberships, task: WritingTask, say: Callable[[str], None]
) -> Tally:
    """Write all pairs; what the writers received must be what the Delta table has."""
    if opened.plain is not None:
        try:
            parts = opened.plain.parts(opened.version)
            rows = sum(part.rows for part in parts)
            return _exchange(spark, _read_files(spark, opened.plain.table, parts), rows, task)
        except (PySparkException, Py4JJavaError, SourceError) as error:
            if not isinstance(error, SourceError) and not raised_in_task(error, SourceError):
                raise
            say(f"note: {reason_of(error)}; Spark reads the table")
    pairs = opened.pairs(spark)
    rows = pairs.count()
    with _large_batches(spark):
        return _exchange(spark, _read_rows(pairs, _layout(spark, rows)), rows, task)


def _read_files(spark: SparkSession, table: LakeTable, parts: list[FilePart]) -> RDD[Block]:
    """The tasks read the files of the table's state themselves."""
    layout = _layout(spark, sum(part.rows for part in parts))
    by_size = sorted(parts, key=lambda part: -part.rows)
    shares = [by_size[at :: layout.tasks] for at in range(min(layout.tasks, len(parts)))]
    context = spark.sparkContext
    spread = context.parallelize(shares, max(len(shares), 1)).flatMap(list)
    return spread.mapPartitions(file_task(table, layout.blocks))


def _read_rows(pairs: DataFrame, layout: Layout) -> RDD[Block]:
    """Spark reads the table and hands its rows to the tasks."""
    packed = pairs.mapInArrow(row_task(layout.blocks), PACKED_SCHEMA)
    return packed.rdd.map(lambda row: (row[0], PackedPairs.of_row(row[1:])))


def _exchange(spark: SparkSession, parts: RDD[Block], rows: int, task: WritingTask) -> Tally:
    """All parts of a block to one task, which writes it."""
    tasks = _layout(spark, rows).tasks
    done = parts.partitionBy(tasks, int).mapPartitions(task).collect()
    received = sum((each.pairs for each, _ in done), 0)
    if received != rows:
        raise GenerationError(
            f"the writers received {received:,} rows instead of the {rows:,} of the Delta table"
        )
    return sum((written for _, written in done), Tally())


def _read_back(spark: SparkSession, pairs: int, task: ReadingTask) -> Tally:
    shards = spark.sparkContext.parallelize(range(SHARD_COUNT), _layout(spark, pairs).tasks)
    return sum(shards.mapPartitions(task).collect(), Tally())


@dataclass(frozen=True, slots=True)
class Layout:
    """How many tasks share the work, and in how many blocks."""

    tasks: int
    blocks: int


def _layout(spark: SparkSession, pairs: int) -> Layout:
    """As many tasks as run at once, or several times as many: none shall be left over."""
    at_once = spark.sparkContext.defaultParallelism
    tasks = min(at_once * max(1, -(-pairs // (PAIRS_IN_TASK * at_once))), SHARD_COUNT)
    return Layout(tasks, min(tasks * max(1, -(-pairs // (PAIRS_IN_BLOCK * tasks))), SHARD_COUNT))


@contextmanager
def _large_batches(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(BATCH_SETTING)
    spark.conf.set(BATCH_SETTING, ROWS_IN_BATCH)
    try:
        yield
    finally:
        spark.conf.set(BATCH_SETTING, before or "10000")


def main(arguments: Sequence[str] | None = None) -> int:
    """Push, print one line, wait until the replaced generation is removed; the exit code."""
    options = push_parser().parse_args(arguments)
    return exit_code_of(lambda: _pushed(options))


def _pushed(options: argparse.Namespace) -> int:
    settings = load_settings(options={"redis.url": options.redis})
    with redis_or_embedded(settings) as url:
        report = _push(options, url)
        print(report.summary(), flush=True)
        for line in report.advice:
            print(f"note: {line}", file=sys.stderr)
        _clean_up(report, options.grace)
    return EXIT_DONE


def _push(options: argparse.Namespace, url: str) -> PushReport:
    spark = spark_session("spaps-push-to-redis")
    try:
        return push_generation(
            spark,
            options.memberships,
            Wanted(options.version, options.run, options.commit),
            url,
            retention=Retention(options.grace, options.keep),
            say=_say,
        )
    finally:
        spark.stop()  # the grace time is no reason to hold a cluster


def _clean_up(report: PushReport, grace_seconds: float) -> None:
    if report.cleanup is None:
        return
    if report.cleanup.running and report.replaced is not None:
        _say(f"generation {report.replaced} is removed in {grace_seconds:g} s")
    removed = report.cleanup.wait()
    if removed:
        _say(f"removed generation {', '.join(map(str, removed))}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
