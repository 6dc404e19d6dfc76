"""Run a command and watch all its processes: driver, JVM and Python workers.

Their processor time says what a run costs also where other work takes its share of the cores.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Going through the pages of a large process takes a core some hundredths of a second.
SAMPLE_SECONDS: Final = 2.0
TIMES_SECONDS: Final = 0.5
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Finished:
    """A command that ended well."""

    seconds: float
    peak_megabytes: float
    output: str
    core_seconds: float  # of all processes, as far as half a second before the end of each


def run_watched(command: Sequence[str], log: Path) -> Finished:
    """Run to the end, output into ``log``; an error with its last lines when it fails."""
    start = time.perf_counter()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        peak = _Peak(process.pid)
        watcher = threading.Thread(target=peak.watch, name="memory watcher", daemon=True)
        watcher.start()
        status = process.wait()
    seconds = time.perf_counter() - start
    peak.done.set()
    watcher.join()
    text = log.read_text(encoding="utf-8")
    if status != 0:
        last = "\n".join(text.splitlines()[-15:])
        raise SystemExit(f"{' '.join(command)} ended with {status}:\n{last}")
    return Finished(seconds, peak.megabytes, text, sum(peak.times.values()))


class _Peak:
    def __init__(self, root: int) -> None:
        self.root = root
        self.megabytes = 0.0
        self.times: dict[int, float] = {}
        self.done = threading.Event()

    def watch(self) -> None:
        looked = time.monotonic()
        while not self.done.wait(TIMES_SECONDS):
            for pid in tree_of(self.root):
                self.times[pid] = max(self.times.get(pid, 0.0), _core_seconds(pid))
            if time.monotonic() - looked >= SAMPLE_SECONDS:
                looked = time.monotonic()
                self.megabytes = max(self.megabytes, tree_megabytes(self.root))


def tree_megabytes(root: int) -> float:
    """Return proportional memory, so that pages shared by forked workers count once."""
    return sum(_proportional_kilobytes(pid) for pid in tree_of(root)) / 1e3


def tree_of(root: int) -> set[int]:
    """Return a process and all that descend from it."""
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").glob("[0-9]*")}
    tree = {root}
    # Children have been listed in any order, so the tree is grown until nothing is added.
    while grown := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= grown
    return tree


def _parent(entry: Path) -> int:
    fields = _stat(entry)
    return int(fields[1]) if fields else -1


def _core_seconds(pid: int) -> float:
    fields = _stat(Path(f"/proc/{pid}"))
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _stat(entry: Path) -> list[str]:
    """What the system says of a process, from its state on; nothing of one that has ended."""
    try:
        # The name in parentheses may hold spaces, so fields are counted from its end.
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _proportional_kilobytes(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(s.split()[1]) for s in rollup.splitlines() if s.startswith("Pss:")), 0)
