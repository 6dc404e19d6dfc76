"""Run a command and watch the memory of all its processes: driver, JVM and Python workers."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Going through the pages of a large process takes a core some hundredths of a second.
SAMPLE_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Finished:
    """A command that ended well."""

    seconds: float
    peak_megabytes: float
    output: str


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
    return Finished(seconds, peak.megabytes, text)


class _Peak:
    def __init__(self, root: int) -> None:
        self.root = root
        self.megabytes = 0.0
        self.done = threading.Event()

    def watch(self) -> None:
        while not self.done.wait(SAMPLE_SECONDS):
            self.megabytes = max(self.megabytes, tree_megabytes(self.root))


def tree_megabytes(root: int) -> float:
    """Return proportional memory, so that pages shared by forked workers count once."""
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").glob("[0-9]*")}
    tree = {root}
    # Children have been listed in any order, so the tree is grown until nothing is added.
    while grown := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= grown
    return sum(_proportional_kilobytes(pid) for pid in tree) / 1e3


def _parent(entry: Path) -> int:
    try:
        stat = (entry / "stat").read_text()
    except OSError:
        return -1
    # The name in parentheses may hold spaces, so fields are counted from its end.
    return int(stat.rpartition(")")[2].split()[1])


def _proportional_kilobytes(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(s.split()[1]) for s in rollup.splitlines() if s.startswith("Pss:")), 0)
