"""Lines about a step that takes long, while it blocks the driver's code."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from jobs.pipeline.session import is_connect

LOOK_SECONDS: Final = 0.5
# Quick steps stay silent, long ones do not flood a log.
SAY_SECONDS: Final = 5.0


@contextmanager
def stage_progress(spark: SparkSession, what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Say every few seconds for how long a step has run, and on Connect how many tasks are done."""
    ending = threading.Event()
    started = time.monotonic()
    tasks: list[tuple[int, int]] = [(0, 0)]

    def note(**progress: Any) -> None:
        stages = progress.get("stages") or ()
        done = sum(stage.num_completed_tasks for stage in stages)
        tasks[0] = done, sum(stage.num_tasks for stage in stages)

    def watch() -> None:
        said_at = started
        while not ending.wait(LOOK_SECONDS):
            now = time.monotonic()
            if now - said_at >= SAY_SECONDS:
                done, total = tasks[0]
                of = f"{done} of {total} tasks, " if total else ""
                say(f"{what}: {of}{now - started:.0f} s")
                said_at = now

    # Only Connect tells an application how far its tasks are.
    if is_connect(spark):
        spark.registerProgressHandler(note)
    watcher = threading.Thread(target=watch, name="stage-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ending.set()
        watcher.join()
        if is_connect(spark):
            spark.removeProgressHandler(note)
