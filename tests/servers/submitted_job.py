"""spark-submit as a process of a test, in a group of its own so that all of it can be ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import REPOSITORY

WAIT_SECONDS = 800
# A JVM that runs one small job spends more on compiling well than it wins back.
# With one compiler alone the JVM keeps room for a fifth of the code that Spark generates.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


@contextmanager
def submitted(
    arguments: Sequence[object], log: Path, folder: Path = REPOSITORY
) -> Iterator[subprocess.Popen[bytes]]:
    """The command with its output in ``log``; whatever is left of it at the end is killed."""
    programs = Path(sys.executable).parent
    with log.open("wb") as written:
        process = subprocess.Popen(
            [str(programs / "spark-submit"), *map(str, arguments)],
            cwd=folder,
            env={
                **os.environ,
                # spark-submit looks for its Spark with the first python3 on the PATH.
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM,
            },
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to driver and JVM at once; workers in groups of their own end without them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(WAIT_SECONDS)
