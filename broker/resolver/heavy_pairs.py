"""Relates pairs with very many vertices in separate processes, within a time limit.

GEOS cannot be interrupted, and relating two areas with 100,000 vertices each can take minutes.
An alarm signal (SIGALRM) ends the process, also in the middle of GEOS. ``python -m`` of this
module is that process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, BinaryIO, Final

import numpy as np
import shapely

from broker.resolver.frames import FrameError, frame_parts, read_frame
from schemas.errors import DeadlineError, WorldError

NICENESS: Final = 5


class HeavyPairs:
    """One process for each thread that needs one, started at the first use."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def relate(self, first: Any, second: Any, seconds: float) -> str:
        """Return the matrix of (first, second); DeadlineError after ``seconds``."""
        deadline = time.monotonic() + seconds
        process = self._process()
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process was started without pipes")
        pair = [np.frombuffer(one, np.uint8) for one in shapely.to_wkb([first, second])]
        # The alarm works only after the process has started.
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        matrix: str | None = None
        try:
            process.stdin.writelines(frame_parts({"deadline": deadline}, *pair))
            process.stdin.flush()
            answer, _ = read_frame(process.stdout)
            matrix = answer["matrix"]
        except (EOFError, BrokenPipeError):
            pass  # The exit code says why.
        except FrameError as error:
            process.kill()
            raise WorldError(str(error)) from error
        finally:
            timer.cancel()
        if time.monotonic() >= deadline:
            # The process has ended, or is being ended.
            self._of_thread.process = None
            process.kill()
        if matrix is not None:
            return matrix
        process.wait()
        if process.returncode in (-signal.SIGALRM, -signal.SIGKILL):
            raise DeadlineError("two entities with very many vertices take too long to relate")
        raise WorldError("two entities with very many vertices cannot be related")

    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] | None = getattr(self._of_thread, "process", None)
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "broker.resolver.heavy_pairs"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            self._of_thread.process = process
        return process


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request with a matrix, until the input ends.

    A request has a deadline by the machine's monotonic clock, and two geometries as WKB.
    """
    while True:
        request, pair = read_frame(requests)
        # SIGALRM has no handler: it ends the process.
        seconds = max(request["deadline"] - time.monotonic(), 0.001)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        first, second = shapely.from_wkb([one.tobytes() for one in pair])
        matrix = shapely.relate(first, second)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.writelines(frame_parts({"matrix": matrix}))
        answers.flush()


if __name__ == "__main__":
    # The resolver decides when this process ends; a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        # The resolver has ended, or no longer needs the answer.
        os._exit(0)
