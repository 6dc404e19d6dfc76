"""Relates pairs with very many vertices in processes of their own, within a time limit."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import Any, Final

import shapely

from broker.resolver.heavy_pair_worker import HEADER
from schemas.errors import DeadlineError, WorldError

MATRIX_LENGTH: Final = 9


class HeavyPairs:
    """One process for each thread that needs one; it is started when it is first needed."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def relate(self, first: Any, second: Any, seconds: float) -> str:
        """Return the matrix of (first, second); DeadlineError after so many seconds."""
        deadline = time.monotonic() + seconds
        process = self._process()
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process was started without pipes")
        pair = shapely.to_wkb([first, second])
        header = HEADER.pack(deadline, len(pair[0]), len(pair[1]))
        # Its own alarm clock is of no use before the process has begun.
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(header + pair[0] + pair[1])
            process.stdin.flush()
            matrix = process.stdout.read(MATRIX_LENGTH)
        except BrokenPipeError:
            matrix = b""
        finally:
            timer.cancel()
        if time.monotonic() >= deadline:
            # It is, or is about to be, ended.
            self._of_thread.process = None
            process.kill()
        if len(matrix) == MATRIX_LENGTH:
            return matrix.decode()
        process.wait()
        if process.returncode in (-signal.SIGALRM, -signal.SIGKILL):
            raise DeadlineError("two entities with very many vertices take too long to relate")
        raise WorldError("two entities with very many vertices cannot be related")

    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] | None = getattr(self._of_thread, "process", None)
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "broker.resolver.heavy_pair_worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            self._of_thread.process = process
        return process
