"""The bulk job on two executor processes, some of which are killed by a task of theirs.

``python -m tests.servers.losing_executors WORLD SUBSCRIPTIONS OUT STEP,STEP… …``: each list of
steps is a run, into ``OUT/0``, ``OUT/1`` and so on, with one kill in each step that is named. There
are 32 partitions, and each step is killed when its first task has sent something.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs.pipeline import exchange
from jobs.pipeline.bulk_run import resolve_batch
from jobs.pipeline.exchange import BatchTask
from jobs.pipeline.session import spark_session
from jobs.pipeline.subscriptions import graph_slices, snapshot
from jobs.pipeline.subscriptions.snapshot import open_subscriptions
from schemas.entity import RESOLVED_SETS_TABLE
from spatial_udfs.bulk import buckets
from tests.servers.spark_settings import NO_PAGES, quick_executors

BUCKETS = 32
SETTINGS = {
    # An application may lose as many executors as it wants.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "20",
    "spark.stage.maxConsecutiveAttempts": "20",
    # A JVM that lives for seconds: the second compiler takes more time than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    **NO_PAGES,
    **quick_executors(),
}


@dataclass
class Kills:
    """The steps of a run in which an executor is killed, and who has been killed."""

    steps: frozenset[str]
    flags: Path

    def armed(self, task: Any, run: BatchTask) -> BatchTask:
        """Return the task, which kills its executor when it belongs to such a step."""
        name = _name_of(task)
        return _losing(run, str(self.flags / name)) if name in self.steps else run


def main() -> int:
    """Run once for each list of steps; each step that was to be killed prints its name."""
    world, lines, out, *lists = sys.argv[1:]
    kills = Kills(frozenset(), Path(out))
    _arm(kills)
    exchange.ROWS_IN_TASK = 1  # type: ignore[misc]  # as if little were much
    snapshot.FEW_SUBSCRIPTIONS = 0  # type: ignore[misc]
    graph_slices.LEAST_TEXTS_IN_SLICE = 10  # type: ignore[misc]
    spark = spark_session("losing-executors", master="local-cluster[2,1,1024]", extra=SETTINGS)
    try:
        entities = spark.read.format("delta").load(f"{world}/entities").count()
        buckets.ENTITIES_PER_BUCKET = -(-entities // BUCKETS)  # type: ignore[misc]
        for number, steps in enumerate(lists):
            folder = Path(out) / str(number)
            kills.steps, kills.flags = frozenset(steps.split(",")), folder / "flags"
            kills.flags.mkdir(parents=True)
            _say(f"run {number}")
            facts = resolve_batch(
                spark, world, None, open_subscriptions(spark, lines), lines, str(folder), _say
            )
            for flag in kills.flags.iterdir():
                _say(f"killed in {flag.name}")
            _say(f"{facts.rows} rows, related pairs {facts.related}")
            # The next run resolves everything, with the related pairs that are there.
            shutil.rmtree(f"{world}/{RESOLVED_SETS_TABLE}")
    finally:
        spark.stop()
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _arm(kills: Kills) -> None:
    """Let the tasks of the steps of a run kill an executor, once each."""
    units, cells = exchange._unit_batches, exchange._cell_batches
    exchange._unit_batches = lambda task, work: kills.armed(task, units(task, work))
    exchange._cell_batches = lambda task: kills.armed(task, cells(task))


def _name_of(task: Callable[..., Any]) -> str:
    plain = task.func if isinstance(task, partial) else task
    return getattr(plain, "__name__", type(plain).__name__)


def _losing(run: BatchTask, flag: str) -> BatchTask:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in run(batches):
            yield batch
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            # A worker comes from the daemon of an executor.
            stat = Path(f"/proc/{os.getppid()}/stat").read_text("utf-8")
            os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)

    return work


if __name__ == "__main__":
    sys.exit(main())
