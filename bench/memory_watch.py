"""Watches the memory of a process, and of everything that it starts."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from statistics import median
from typing import Final, Self

from bench.process_tree import tree_megabytes

SAMPLE_SECONDS: Final = 0.05
# The tree is looked for in all of /proc: less often, so that it costs the measurement little.
TREE_EVERY: Final = 10


class MemoryWatch:
    """Resident megabytes, sampled until left; peaks since the last ``restart``."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = 0.0
        self.tree_peak = 0.0
        self.tree_before = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def settled(self) -> float:
        """Return the median of a second."""
        samples = []
        for _ in range(20):
            samples.append(self._resident())
            time.sleep(0.05)
        return median(samples)

    def restart(self) -> None:
        """Forget the peaks so far."""
        self.peak = self._resident()
        self.tree_before = self.tree_peak = tree_megabytes(self._pid)

    def _resident(self) -> float:
        status = Path(f"/proc/{self._pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1e3

    def _watch(self) -> None:
        turn = 0
        while not self._done.wait(SAMPLE_SECONDS):
            turn += 1
            try:
                self.peak = max(self.peak, self._resident())
            except OSError:
                return
            if turn % TREE_EVERY == 0:
                self.tree_peak = max(self.tree_peak, tree_megabytes(self._pid))
