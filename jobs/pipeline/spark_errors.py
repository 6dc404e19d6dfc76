"""Turns what Spark raises into an error of ours: one line, the most useful one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from schemas.errors import SpapsError

_CAUSE: Final = "Caused by: "
_PYTHON: Final = "Traceback (most recent call last)"
# How Sedona reports what a function could not do.
_EXPRESSION: Final = "evaluating expression "


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
