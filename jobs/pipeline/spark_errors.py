"""What Spark raises, as an error of ours: one line, and the one that tells a person most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from schemas.errors import SpapsError

# An error of ours, or of Python, at the end of the story of a task.
_OURS: Final = re.compile(r"^schemas\.errors\.\w+: (.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception): .+)$", re.MULTILINE)
_IN_PYTHON: Final = "Traceback (most recent call last)"
# How Sedona reports what a function could not do.
_IN_EXPRESSION: Final = re.compile(r"evaluating expression (\w+) .*cause: (.*)")
_CAUSE: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+\w+: (?=.)")


@contextmanager
def spark_errors_as(
    kind: type[SpapsError], what: str, *, about: Sequence[str] = ()
) -> Iterator[None]:
    """Turn what Spark raises inside into ``kind``, which says ``what`` failed and why.

    ``about``: words, such as the names of files, that a telling line has in it.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise kind(f"{what}: {reason_of(error, about)}") from error


def reason_of(error: BaseException, about: Sequence[str] = ()) -> str:
    """One line out of the hundred that Spark writes."""
    text = str(error).strip()
    said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else None
    lines = [line.strip() for line in (said or text).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    if ours := _OURS.findall(text):
        return str(ours[-1])
    if failed := _IN_EXPRESSION.search(first):
        return f"{failed[1]}: {failed[2]}"
    named = [line for line in text.splitlines() if any(word in line for word in about)]
    if named:
        return _without_class(named[0].strip())
    if _IN_PYTHON in text and (raised := _PYTHON.findall(text)):
        return str(raised[-1])
    causes = _CAUSE.findall(text)
    return _without_class(causes[-1] if causes else first)


def _without_class(line: str) -> str:
    return _JAVA_CLASS.sub("", line.removeprefix("Caused by: ").removeprefix(": "))


def raised_in_task(error: BaseException, kind: type[SpapsError]) -> bool:
    """Whether a task failed with an error of ours, of this kind."""
    return f"\n{kind.__module__}.{kind.__name__}: " in str(error)
