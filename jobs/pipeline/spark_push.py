"""Pushes memberships from Delta into Redis: the executors write a generation and read it back.

files or rows ─ file_task, row_task ─► blocks ─ repartition by block ─► writing_task ─► Redis
Redis ─ reading_task ─► tallies, which must be those of the writers.

A task that is repeated, or runs twice, writes the same members into the same sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from jobs.pipeline.memberships.memberships_table import (
    CommitChoice,
    OpenMemberships,
    open_memberships,
    resolved_counts,
)
from jobs.pipeline.memberships.run_facts import note_in_runs
from jobs.pipeline.session import PARTITIONS_SETTING, session_settings
from jobs.pipeline.spark_messages import spark_errors_as, stage_progress
from redis_link.connection.client import connect
from redis_link.connection.url import masked
from redis_link.generation.generation_losses import LossBase, Losses, loss_base
from redis_link.generation.generation_push import (
    GenerationPush,
    PushReport,
    PushSource,
    StepClock,
    report_of,
)
from redis_link.generation.push_lock import PushToken
from redis_link.generation.push_tasks import (
    RESULT_COLUMNS,
    ArrowTask,
    TaskResult,
    file_task,
    reading_task,
    row_task,
    writing_task,
)
from redis_link.generation.quality_gate import QualityGate, generation_in_force
from redis_link.generation.sweep import DEFAULT_RETENTION, Retention
from redis_link.sets.pair_arrays import Tally
from redis_link.sets.pair_blocks import BLOCK, BLOCK_COLUMNS
from schemas.errors import GenerationError, SourceError
from schemas.generation import FROM_FILE, RegistryCoverage
from schemas.redis_keys import SHARD_COUNT
from world.memberships.membership_parts import PlainState, read_parts, usable_pairs

# What a task writes at most, and what is worth a task of its own.
PAIRS_IN_TASK: Final = 2_000_000
PAIRS_WORTH_A_TASK: Final = 500_000
# Spark distributes blocks by a hash: with many for each task, tasks get about equally much.
BLOCKS_IN_TASK: Final = 32
USUAL_PARTITIONS: Final = 200
# Rows in an Arrow batch: pairs are 16 bytes, a block is up to 16 MB.
BATCH_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS_IN_BATCH: Final = "100000"
BLOCKS_IN_BATCH: Final = "64"


@spark_errors_as(GenerationError, "the push failed")
def push_generation(  # noqa: PLR0913  what a session does not say
    spark: SparkSession,
    memberships_path: str,
    wanted: CommitChoice | int | None,
    redis_url: str,
    *,
    coverage: RegistryCoverage = FROM_FILE,
    world: str = "",
    retention: Retention = DEFAULT_RETENTION,
    say: Callable[[str], None] = print,
    before_switch: Callable[[int], None] = lambda _: None,
    gate: QualityGate | None = None,
) -> PushReport:
    """Push memberships as a new generation and switch to it.

    ``wanted`` says which: the commit of a run, or by a number the newest of that world version.
    ``coverage`` says which registered subscriptions were resolved, ``world`` is the id of the
    world that they were resolved on. ``before_switch`` gets the number of the generation when
    everything is written and compared. ``gate`` may refuse the switch for what the generation would
    take away. ``report.cleanup`` removes the replaced generation after the grace time: wait for
    it at the end of the job.
    """
    clock = StepClock()
    if not isinstance(wanted, CommitChoice):
        wanted = CommitChoice(wanted)
    opened = open_memberships(spark, memberships_path, wanted)
    client = connect(redis_url)
    what = f"push of {memberships_path}"
    source = PushSource(opened.version, what, coverage, opened.run, opened.state, world)
    if gate is not None and (counts := resolved_counts(spark, opened)) is not None:
        gate.check_resolved(*counts, say)
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
            written = write_generation(spark, opened, redis_url, push.token, say)
        clock.lap("write")
        say(f"{name}: {written.pairs:,} pairs of {written.peids:,} entities written, reading back")
        in_force = None if gate is None else generation_in_force(client)
        base = None if in_force is None else loss_base(in_force, coverage)
        with stage_progress(spark, "reading back", say):
            found, losses = read_generation_back(
                spark, redis_url, push.token.generation, base, written.pairs
            )
        push.compare(written, found)
        if gate is not None:
            gate.check_losses(losses, say)
        clock.lap("verify")
        before_switch(push.token.generation)
        push.switch(written, found)
        clock.lap("switch")
    report = report_of(client, push, clock.seconds, retention)
    note_in_runs(spark, opened.table, opened.run, report.generation, say)
    return report


def write_generation(
    spark: SparkSession,
    opened: OpenMemberships,
    redis_url: str,
    token: PushToken,
    say: Callable[[str], None],
) -> Tally:
    """Write all pairs; what the writers received must be what the Delta table has."""
    task = writing_task(redis_url, token)
    if opened.plain is not None:
        try:
            return _write_files(spark, opened.plain, opened.version, task)
        except SourceError as error:
            say(f"note: {error}; Spark reads the table")
    pairs = opened.pairs(spark)
    rows = pairs.count()
    layout = layout_of(spark, rows)
    with session_settings(spark, {BATCH_SETTING: ROWS_IN_BATCH}):
        blocks = pairs.mapInArrow(row_task(usable_pairs, layout.blocks), BLOCK_COLUMNS)
        return _write_blocks(blocks, layout, rows, task)


def _write_files(spark: SparkSession, plain: PlainState, version: int, task: ArrowTask) -> Tally:
    """Let tasks read the files of the table's state themselves."""
    parts = plain.parts(version)
    rows = sum(part.rows for part in parts)
    layout = layout_of(spark, rows)
    by_size = sorted(parts, key=lambda part: -part.rows)
    readers = max(min(layout.tasks, len(parts)), 1)
    shares = [by_size[at::readers] for at in range(readers)]
    with session_settings(spark, {BATCH_SETTING: BLOCKS_IN_BATCH}):
        read = file_task(partial(read_parts, plain.table), shares, layout.blocks)
        blocks = _numbered(spark, readers).mapInArrow(read, BLOCK_COLUMNS)
        return _write_blocks(blocks, layout, rows, task)


def _write_blocks(blocks: DataFrame, layout: Layout, rows: int, task: ArrowTask) -> Tally:
    """Send all parts of a block to one task, which writes it."""
    results = _results(blocks.repartition(layout.tasks, BLOCK).mapInArrow(task, RESULT_COLUMNS))
    received = sum(each.received for each in results)
    if received != rows:
        raise GenerationError(
            f"the writers received {received:,} rows instead of the {rows:,} of the Delta table"
        )
    return sum((each.tally for each in results), Tally())


def read_generation_back(
    spark: SparkSession, redis_url: str, generation: int, base: LossBase | None, pairs: int
) -> tuple[Tally, Losses]:
    """Return what Redis holds, and what it lacks of ``base``."""
    tasks = layout_of(spark, pairs).tasks
    read = reading_task(redis_url, generation, base, tasks)
    results = _results(_numbered(spark, tasks).mapInArrow(read, RESULT_COLUMNS))
    return (
        sum((each.tally for each in results), Tally()),
        sum((each.losses for each in results), Losses()),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """How many tasks share the work, and in how many blocks."""

    tasks: int
    blocks: int


def layout_of(spark: SparkSession, pairs: int) -> Layout:
    """Return as many tasks as Spark has shuffle partitions, several times as many, or fewer.

    A multiple leaves no task over at the end. Fewer do where there is little to write.
    """
    given = spark.conf.get(PARTITIONS_SETTING) or ""
    partitions = max(int(given), 1) if given.isdecimal() else USUAL_PARTITIONS
    if pairs > PAIRS_WORTH_A_TASK * partitions:
        tasks = partitions * -(-pairs // (PAIRS_IN_TASK * partitions))
    else:
        tasks = max(-(-pairs // PAIRS_WORTH_A_TASK), 1)
    tasks = min(tasks, SHARD_COUNT)
    return Layout(tasks, min(tasks * BLOCKS_IN_TASK, SHARD_COUNT))


def _numbered(spark: SparkSession, tasks: int) -> DataFrame:
    """Return one row for each task: its number, from 0."""
    return spark.range(0, tasks, 1, tasks)


def _results(frame: DataFrame) -> list[TaskResult]:
    """Run the tasks; an error that one of them reports is raised."""
    results = [TaskResult.of_row(row) for row in frame.collect()]
    errors = [each.error for each in results if each.error is not None]
    # An error of the sources can be got round; it counts when there is no other one.
    errors.sort(key=lambda error: error.kind == SourceError.__name__)
    if not errors:
        return results
    if errors[0].kind == SourceError.__name__:
        raise SourceError(errors[0].reason)
    raise GenerationError(f"the push failed: {errors[0].reason}")
