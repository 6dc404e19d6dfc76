"""What a person sees of Spark: names of jobs in its UI, lines of progress, one line of an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from jobs.pipeline.session import is_connect
from schemas.errors import SpapsError

# Spark passes settings of the session on to its jobs, and its UI shows this one.
DESCRIPTION: Final = "spark.job.description"
LOOK_SECONDS: Final = 0.5
# Quick steps stay silent, long ones do not flood a log.
SAY_SECONDS: Final = 5.0

_CAUSE: Final = "Caused by: "
_PYTHON: Final = "Traceback (most recent call last)"
# How Sedona reports what a function could not do.
_EXPRESSION: Final = "evaluating expression "


@contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """Name the jobs of a step for the Spark UI.

    Tags would do so everywhere. But a classic session that ever had a tag cannot be serialized any
    more, and Sedona sends it to the tasks that read an OSM extract.
    """
    if is_connect(spark):
        tag = what.replace(",", "")
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    spark.conf.set(DESCRIPTION, what)
    try:
        yield
    finally:
        spark.conf.unset(DESCRIPTION)


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


@contextmanager
def spark_errors_as(
    kind: type[SpapsError], what: str, *, about: Sequence[str] = ()
) -> Iterator[None]:
    """Turn what Spark raises inside into ``kind``, which says ``what`` failed and why.

    ``about``: words, such as the names of files, that a useful line contains.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise kind(f"{what}: {reason_of(error, about)}") from error


def reason_of(error: BaseException, about: Sequence[str] = ()) -> str:
    """Return the most useful line of the hundred that Spark writes."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    named = [line for line in lines if any(word in line for word in about)]
    if named:
        return _without_class(named[0])
    raised = _raised_in_python(error, lines)
    if raised:
        return _without_module(raised)
    causes = [line for line in lines if line.startswith(_CAUSE)]
    chosen = causes[-1] if causes else lines[0]
    failed = next((line for line in lines if _EXPRESSION in line and "cause: " in line), None)
    if failed is not None:
        name = failed.partition(_EXPRESSION)[2].split()[0]
        return f"{name}: {failed.rpartition('cause: ')[2]}"
    return _without_class(chosen)


def _raised_in_python(error: BaseException, lines: Sequence[str]) -> str | None:
    """Return the last line of Python's traceback, which names the exception."""
    begins = [place for place, line in enumerate(lines) if _PYTHON in line]
    if not begins and not isinstance(error, PythonException):
        return None
    traceback = lines[begins[-1] + 1 :] if begins else lines
    return next((line for line in traceback if not line.startswith((" ", "\t"))), None)


def _without_module(line: str) -> str:
    """Return the line without the class of an error of ours; other errors keep their class."""
    name, colon, text = line.partition(": ")
    return text if colon and name.startswith("schemas.errors.") else line


def _without_class(line: str) -> str:
    """Return the text without the Java class in front of it."""
    text = line.strip().removeprefix(_CAUSE).removeprefix(": ")
    while True:
        name, colon, rest = text.partition(": ")
        if not (colon and rest and "." in name and " " not in name and "/" not in name):
            return text
        text = rest
