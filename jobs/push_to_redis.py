"""spark-submit jobs/push_to_redis.py --memberships DIR: memberships from Delta into Redis.

The executors write sets ``peid → {subId}`` as a new generation and read them back; only when
counts and checksum are those of the Delta table, Redis switches to it, in one step.

Exit codes: 0 done, 2 something is wrong and the old generation serves on, 3 another push runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from jobs.memberships_table import open_memberships
from jobs.push_tasks import (
    PACKED_SCHEMA,
    RECEIVED_COLUMNS,
    SHARD,
    TALLY_COLUMNS,
    Task,
    pack_pairs,
    reading_task,
    writing_task,
)
from jobs.session import spark_session
from jobs.spark_errors import spark_errors_as
from jobs.stage_progress import stage_progress
from redis_link.client import connect
from redis_link.embedded import redis_or_embedded
from redis_link.generation_push import GenerationPush, PushSource
from redis_link.push_report import PushReport, StepClock, report_of
from redis_link.sweep import DEFAULT_RETENTION, GRACE_SECONDS, Retention
from redis_link.tally import HIGH_SHIFT, LOW_MASK, Tally
from redis_link.url import masked
from schemas.errors import GenerationError, PushBusyError, SpapsError
from schemas.generation import FROM_FILE, RegistryCoverage
from schemas.membership import PEID, SUB_ID
from schemas.redis_keys import SHARD_COUNT
from schemas.settings import load_settings

PAIRS_IN_TASK: Final = 1_000_000
# Pairs are 16 bytes: Spark's default of 10,000 rows makes batches that cost more than they hold.
BATCH_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS_IN_BATCH: Final = "100000"

EXIT_FAILED: Final = 2
EXIT_BUSY: Final = 3


@spark_errors_as(GenerationError, "the push failed")
def push_generation(
    spark: SparkSession,
    memberships_path: str,
    version: int | None,
    redis_url: str,
    *,
    coverage: RegistryCoverage = FROM_FILE,
    retention: Retention = DEFAULT_RETENTION,
    say: Callable[[str], None] = print,
) -> PushReport:
    """Push the memberships of a version as a new generation and switch to it.

    ``coverage`` says which registered subscriptions were resolved. ``report.cleanup`` removes
    the replaced generation after the grace time: wait for it at the end of the job.
    """
    clock = StepClock()
    pairs, chosen = open_memberships(spark, memberships_path, version)
    client = connect(redis_url)
    source = PushSource(chosen, f"push of {memberships_path}", coverage)
    with GenerationPush(client, source) as push, _large_batches(spark):
        name = f"generation {push.ticket.generation}"
        if push.swept:
            left = ", ".join(map(str, push.swept))
            say(f"removed what killed pushes left of generation {left}")
        delta = _delta_tally(pairs)
        clock.lap("count")
        say(f"{name}: {delta.pairs:,} rows of world version {chosen} to {masked(redis_url)}")
        with stage_progress(spark, "writing", say):
            written = _write(spark, pairs, delta, writing_task(redis_url, push.ticket))
        clock.lap("write")
        say(f"{name}: {written.pairs:,} pairs of {written.peids:,} entities written, reading back")
        with stage_progress(spark, "reading back", say):
            found = _read_back(spark, reading_task(redis_url, push.ticket.generation))
        clock.lap("verify")
        push.switch(written, found)
        clock.lap("switch")
    return report_of(client, push, clock.seconds, retention)


def _delta_tally(pairs: DataFrame) -> Tally:
    """Rows and checksum as Spark alone sees them; a row for each stage, so pairs may repeat."""
    hashed = F.xxhash64(PEID, SUB_ID)
    sums = {"high": F.shiftrightunsigned(hashed, HIGH_SHIFT), "low": hashed.bitwiseAND(LOW_MASK)}
    usable = (F.col(PEID) >= 0) & (F.col(SUB_ID) >= 0)
    [row] = pairs.agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(usable).alias("usable"),
        *(F.coalesce(F.sum(part), F.lit(0)).alias(name) for name, part in sums.items()),
    ).collect()
    if row["usable"] != row["rows"]:
        raise GenerationError(
            f"{row['rows'] - row['usable']:,} rows of memberships lack a peid or a subId, "
            "or have one below 0"
        )
    return Tally(row["rows"], 0, row["high"], row["low"])


def _write(spark: SparkSession, pairs: DataFrame, delta: Tally, task: Task) -> Tally:
    """Write all pairs; what the writers received must be what the Delta table has."""
    tasks = max(spark.sparkContext.defaultParallelism, -(-delta.pairs // PAIRS_IN_TASK))
    shards = pairs.select(PEID, SUB_ID).mapInArrow(pack_pairs, PACKED_SCHEMA)
    written = shards.repartition(min(tasks, SHARD_COUNT), SHARD)
    columns = (*RECEIVED_COLUMNS, *TALLY_COLUMNS)
    *received, pairs_count, peids, high, low = _sums(written, task, columns)
    if tuple(received) != (delta.pairs, delta.high, delta.low):
        raise GenerationError(
            f"the writers received {received[0]:,} rows that are not the {delta.pairs:,} "
            "of the Delta table"
        )
    return Tally(pairs_count, peids, high, low)


def _read_back(spark: SparkSession, task: Task) -> Tally:
    parallelism = spark.sparkContext.defaultParallelism
    shards = spark.range(0, SHARD_COUNT, 1, min(4 * parallelism, SHARD_COUNT))
    return Tally(*_sums(shards, task, TALLY_COLUMNS))


def _sums(frame: DataFrame, task: Task, columns: Sequence[str]) -> list[int]:
    """Run a task on all partitions and add up what it gives."""
    schema = ", ".join(f"{name} long" for name in columns)
    given = frame.mapInArrow(task, schema)
    [row] = given.agg(*(F.coalesce(F.sum(name), F.lit(0)) for name in columns)).collect()
    return list(row)


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
    options = _parser().parse_args(arguments)
    try:
        settings = load_settings(options={"redis.url": options.redis}).redis
        with redis_or_embedded(settings.url, settings.data_dir) as url:
            report = _push(options, url)
            print(report.summary(), flush=True)
            for line in report.advice:
                print(f"note: {line}", file=sys.stderr)
            _clean_up(report, options.grace)
    except PushBusyError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BUSY
    except SpapsError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _push(options: argparse.Namespace, url: str) -> PushReport:
    spark = spark_session("spaps-push-to-redis")
    try:
        return push_generation(
            spark,
            options.memberships,
            options.version,
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="push_to_redis.py",
        description="Memberships of one world version into Redis, as a new generation.",
    )
    parser.add_argument("--memberships", required=True, metavar="DIR",
                        help="Delta table of memberships, or the folder that holds it")  # fmt: skip
    parser.add_argument("--version", type=int, help="world version (default: the newest)")
    parser.add_argument("--redis", metavar="URL", help="default: conf/, else the embedded server")
    parser.add_argument("--grace", type=float, default=GRACE_SECONDS, metavar="SECONDS",
                        help="how long readers may stay on the old one (%(default)g)")  # fmt: skip
    parser.add_argument("--keep", type=int, default=0, metavar="N",
                        help="how many replaced generations stay (%(default)s)")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
