"""What the bulk benchmark measures, part by part, and the files that keep it.

A part is measured by itself, since all of them take hours: a file for each keeps its figures with
the commit, and the report has those that are there.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

TREE: Final = Path(__file__).resolve().parents[2]
# The parts that push, and how many pairs.
PUSHED: Final = {"push-10m": 10_000_000, "push-100m": 100_000_000}


@dataclass(frozen=True)
class JobRun:
    """One run of the job, or several of the same."""

    title: str
    subscriptions: int
    all_seconds: tuple[float, ...]
    rows: int
    peak_megabytes: float
    core_seconds: float = 0.0  # the median; of processes of their own

    @classmethod
    def of_rounds(
        cls, title: str, subscriptions: int, runs: list[dict[str, float]], peak_megabytes: float
    ) -> JobRun:
        """From what each round says of its seconds and rows."""
        seconds = tuple(run["seconds"] for run in runs)
        return cls(title, subscriptions, seconds, int(runs[0]["rows"]), peak_megabytes)

    @classmethod
    def joined(cls, runs: list[JobRun]) -> JobRun:
        """Runs of the same as one, with the seconds of each."""
        seconds = tuple(each for run in runs for each in run.all_seconds)
        peak = max(run.peak_megabytes for run in runs)
        spent = median(run.core_seconds for run in runs)
        return cls(runs[0].title, runs[0].subscriptions, seconds, runs[0].rows, peak, spent)

    @property
    def seconds(self) -> float:
        """The median."""
        return median(self.all_seconds)

    def told(self) -> str:
        """The median, and how far the rounds lie apart."""
        if len(self.all_seconds) == 1:
            return f"{self.seconds:.1f}"
        return f"{self.seconds:.1f} ({min(self.all_seconds):.1f} to {max(self.all_seconds):.1f})"


@dataclass(frozen=True)
class Comparison:
    """Runs of the engine of 1a227ed and of this one, in turns."""

    entities: int
    before: JobRun
    this: JobRun

    @property
    def ratio(self) -> float:
        """The seconds of this engine divided by those of the other, each pair in turn."""
        pairs = zip(self.this.all_seconds, self.before.all_seconds, strict=True)
        return median(this / before for this, before in pairs)

    @property
    def of_core_seconds(self) -> float:
        """The same of the processor time."""
        return self.this.core_seconds / self.before.core_seconds

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Comparison:
        """Read it again."""
        return cls(found["entities"], job_run(found["before"]), job_run(found["this"]))


@dataclass(frozen=True)
class PeerSample:
    """What PostGIS took for a sample, one subscription after the other."""

    versions: str
    subscriptions: int
    seconds: float
    tuned_seconds: float
    rows: int

    def seconds_for(self, subscriptions: int) -> float:
        """The same for more subscriptions of the same mix: the procedure knows no batch."""
        return self.seconds / self.subscriptions * subscriptions


@dataclass(frozen=True)
class PushFigures:
    """The push of some pairs beside a plain pipeline of one process."""

    pairs: int
    pairs_per_second: float
    plain_pairs_per_second: float
    bytes_per_pair: float

    @property
    def ratio(self) -> float:
        """How many times faster than the plain pipeline."""
        return self.pairs_per_second / self.plain_pairs_per_second


@dataclass(frozen=True)
class Spread:
    """A run in one process and in two executors of one core, and how unequal its tasks are."""

    entities: int
    local: JobRun
    executors: JobRun
    # By step: stages, tasks, megabytes shuffled, seconds of the largest task, largest / median.
    steps: dict[str, tuple[int, int, float, float, float]]

    @property
    def ratio(self) -> float:
        """The seconds of the executors divided by those of one process."""
        return self.executors.seconds / self.local.seconds

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Spread:
        """Read it again."""
        steps = {name: tuple(step) for name, step in found["steps"].items()}
        runs = job_run(found["local"]), job_run(found["executors"])
        return cls(found["entities"], *runs, steps)


def job_run(found: dict[str, Any]) -> JobRun:
    """Read a run again."""
    return JobRun(**{**found, "all_seconds": tuple(found["all_seconds"])})


@dataclass(frozen=True)
class Part:
    """The figures of a part, and the circumstances of their measurement."""

    command: str
    commit: str
    load_average: float
    figures: Any

    def write(self, folder: Path, name: str) -> None:
        """Keep it in a file."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(asdict(self), indent=1) + "\n")


def measured_part(command: str, measure: Any) -> Part:
    """Measure a part, which gives a list of dataclasses."""
    load_average = os.getloadavg()[0]
    asking = ["git", "-C", str(TREE), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asking, capture_output=True, text=True, check=True).stdout.strip()
    return Part(command, commit, load_average, [asdict(each) for each in measure()])


def read_part(folder: Path, name: str) -> Part | None:
    """Return a part that was measured, or None."""
    path = folder / f"{name}.json"
    return Part(**json.loads(path.read_text())) if path.is_file() else None
