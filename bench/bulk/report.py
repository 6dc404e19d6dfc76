"""The figures of the bulk benchmark as JSON, Markdown and a plot."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from testing.processor import cpu_name

# By the title of a run: at most so many times the seconds of the earlier engine.
MOST_OF_EARLIER: Final = {"first": 1.7, "large": 1.5, "largest": 1.3}
WANTED_SPEED_UP: Final = {"large": 130.0, "largest": 1_000.0}
WANTED_PUSH_RATIO: Final = 1.0


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
class PushFigures:
    """The push of the large run beside a plain pipeline of one process."""

    pairs: int
    pairs_per_second: float
    plain_pairs_per_second: float
    bytes_per_pair: float

    @property
    def ratio(self) -> float:
        """How many times faster than the plain pipeline."""
        return self.pairs_per_second / self.plain_pairs_per_second


@dataclass(frozen=True)
class BulkReport:
    """Everything that one run of the benchmark measured."""

    command: str
    entities: int
    load_average: float
    peer: PeerSample
    submitted: dict[str, JobRun]  # first, again, large, largest
    earlier: dict[str, JobRun]  # first, large, largest, of the earlier engine
    warm: dict[str, JobRun]  # first, again, other, large in a session that was up
    push: PushFigures

    def speed_up(self, run: JobRun) -> float:
        """How many times faster than PostGIS would be."""
        return self.peer.seconds_for(run.subscriptions) / run.seconds

    def aims(self) -> list[tuple[str, float, str, bool]]:
        """What was to be reached: name, figure, aim, whether it is reached.

        Judged by spark-submit, from the start of the process to its end.
        """
        runs = self.submitted
        beside = [
            _at_most(f"{title} / earlier engine", self.ratio(title), most)
            for title, most in MOST_OF_EARLIER.items()
        ]
        faster = [
            _at_least(
                f"times PostGIS at {runs[title].subscriptions:,}",
                self.speed_up(runs[title]),
                wanted,
            )
            for title, wanted in WANTED_SPEED_UP.items()
        ]
        push = _at_least("push / plain pipeline", self.push.ratio, WANTED_PUSH_RATIO)
        return [*beside, *faster, push]

    def ratio(self, title: str) -> float:
        """The seconds of a run divided by those of the earlier engine, each pair in turn."""
        pairs = zip(self.submitted[title].all_seconds, self.earlier[title].all_seconds, strict=True)
        return median(this / before for this, before in pairs)

    def reached(self) -> bool:
        """Whether every aim is reached."""
        return all(reached for *_, reached in self.aims())

    def write(self, folder: Path) -> None:
        """Write bulk.json, bulk.md and bulk.png."""
        folder.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "cpu": cpu_name(), "python": platform.python_version()}
        aims = {name: figure for name, figure, *_ in self.aims()}
        content = {**asdict(self), **machine, "aims": aims}
        (folder / "bulk.json").write_text(json.dumps(content, indent=1) + "\n")
        (folder / "bulk.md").write_text(self.markdown())
        self._plot(folder / "bulk.png")

    def markdown(self) -> str:
        """Two tables: the runs and the aims."""
        peer = self.peer
        lines = [
            (
                f"`{self.command}`, {cpu_name()}, {os.cpu_count()} cores, "
                f"load average {self.load_average:.1f} at the start"
            ),
            "",
            (
                f"City of {self.entities:,} entities; {peer.versions}: "
                f"{peer.subscriptions} subscriptions in {peer.seconds:.1f} s "
                f"({peer.tuned_seconds:.1f} s when repeated stages join the last members only)"
            ),
            "",
            "| run | subscriptions | seconds | core-seconds | rows | times PostGIS | peak memory |",
            "|---|--:|--:|--:|--:|--:|--:|",
            *(self._line("spark-submit", run) for run in self.submitted.values()),
            *(self._line("engine of 1a227ed", run) for run in self.earlier.values()),
            *(self._line("session that is up", run) for run in self.warm.values()),
            "",
            (
                "Medians of several runs. *first*: on a world as an import leaves it, so related "
                "pairs are joined and kept; *large* and *largest* too. *again*: the same "
                "subscriptions. *other*: as many others, whose sets are known in part at most. "
                "The session had run some of each before. The engine of commit 1a227ed ran in "
                "turns with this one."
            ),
            "",
            (
                f"Push: {self.push.pairs:,} pairs, {self.push.pairs_per_second:,.0f} a second, "
                f"plain pipeline {self.push.plain_pairs_per_second:,.0f} a second, "
                f"{self.push.bytes_per_pair:.1f} bytes a pair."
            ),
            "",
            "Judged by `spark-submit`, from the start of the process to its end, Java and all.",
            "",
            "| aim | figure | wanted | |",
            "|---|--:|--:|---|",
            *(
                f"| {name} | {figure:.2f} | {wanted} | {'reached' if reached else 'missed'} |"
                for name, figure, wanted, reached in self.aims()
            ),
        ]
        return "\n".join(lines) + "\n"

    def _line(self, where: str, run: JobRun) -> str:
        return (
            f"| {where}, {run.title} | {run.subscriptions:,} | {run.told()} "
            f"| {run.core_seconds:.1f} | {run.rows:,} "
            f"| {self.speed_up(run):.0f} | {run.peak_megabytes:,.0f} MB |"
        )

    def _plot(self, path: Path) -> None:
        runs = [run for title, run in self.submitted.items() if title != "again"]
        counts = [run.subscriptions for run in runs]
        figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
        peer = [self.peer.seconds_for(count) for count in counts]
        axes.loglog(counts, peer, "o--", color="#d55e00", label="PostGIS, one by one (projected)")
        warm_first, warm_again = self.warm["first"], self.warm["again"]
        warm_large = self.warm["large"]
        before = list(self.earlier.values())
        again = self.submitted["again"]
        # What is said of a line stands on its free side.
        for title, colour, up, shown, repeated in (
            ("spark-submit", "#0072b2", 7, runs, again),
            ("session that is up", "#009e73", -15, [warm_first, warm_large], warm_again),
            ("engine of 1a227ed", "#999999", None, before, None),
        ):
            axes.loglog(
                [run.subscriptions for run in shown], [run.seconds for run in shown], "o-",
                color=colour, label=f"{title}, first run",
            )  # fmt: skip
            for run in shown if up is not None else ():
                axes.annotate(
                    f"{self.speed_up(run):.0f} times PostGIS",
                    (run.subscriptions, run.seconds),
                    xytext=(6 if run is shown[0] else -6, up),
                    textcoords="offset points",
                    ha="left" if run is shown[0] else "right",
                    color=colour,
                )
            if repeated is not None:
                axes.loglog(
                    [repeated.subscriptions], [repeated.seconds], "s", color=colour,
                    label=f"{title}, again",
                )  # fmt: skip
        axes.set_xlabel("subscriptions")
        axes.set_ylabel("seconds")
        axes.set_title(f"Neighborhoods resolved in bulk, {self.entities:,} entities")
        axes.grid(which="both", alpha=0.25)
        figure.legend(loc="outside lower center", ncols=2)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def _at_least(name: str, figure: float, wanted: float) -> tuple[str, float, str, bool]:
    return name, figure, f"≥ {wanted:g}", figure >= wanted


def _at_most(name: str, figure: float, most: float) -> tuple[str, float, str, bool]:
    return name, figure, f"≤ {most:g}", figure <= most
