"""Progress of Spark's stages as lines of text, while an action blocks the driver's code."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

LOOK_SECONDS: Final = 0.5
# Quick steps stay silent, long ones do not flood a log.
SAY_SECONDS: Final = 5.0


@contextmanager
def stage_progress(spark: SparkSession, what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Say every few seconds how many tasks of the running stages are done."""
    ending = threading.Event()
    started = time.monotonic()

    def watch() -> None:
        said_at = started
        while not ending.wait(LOOK_SECONDS):
            now = time.monotonic()
            if now - said_at < SAY_SECONDS:
                continue
            done, total = _tasks(spark)
            if total:
                say(f"{what}: {done} of {total} tasks, {now - started:.0f} s")
            said_at = now

    watcher = threading.Thread(target=watch, name="stage-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ending.set()
        watcher.join()


def _tasks(spark: SparkSession) -> tuple[int, int]:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
