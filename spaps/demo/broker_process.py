"""Runs ``spaps broker`` as a process for the time of a demonstration."""

from __future__ import annotations

import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from schemas.errors import SpapsError

COMMAND: Final = (
    *(sys.executable, "-P", "-c"),
    *("from spaps.cli.command_line import main; main()", "broker"),
)
# The broker reads the world before it is ready; the machine may be busy.
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 20.0


class DemoBrokerError(SpapsError):
    """The broker of the demonstration did not start."""


@contextmanager
def demo_broker(world: str) -> Iterator[tuple[int, str]]:
    """Run a broker on a free port of this machine; yield the port and its first line of output."""
    with tempfile.TemporaryDirectory(prefix="spaps-demo-") as folder:
        log = Path(folder) / "broker.log"
        # The broker runs in a temporary folder and without Redis, so that it leaves nothing behind.
        place = world if "://" in world else str(Path(world).resolve())
        with log.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603  our own command
                [*COMMAND, "--world", place, "--listen", "127.0.0.1:0", "--allow-anonymous",
                 "--redis", "none"],
                stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder,
            )  # fmt: skip
        try:
            ready = _first_line(process)
            found = re.search(r"127\.0\.0\.1:(\d+) \(default\)", ready)
            if found is None:
                last = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
                raise DemoBrokerError(f"the broker did not start: {' '.join(last) or 'no answer'}")
            yield int(found[1]), ready.strip()
        finally:
            _stop(process)


def _first_line(process: subprocess.Popen[str]) -> str:
    if process.stdout is None:
        return ""
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    return process.stdout.readline() if readable else ""


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
