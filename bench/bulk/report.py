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

WANTED_SPEED_UP_FEW: Final = 20.0
WANTED_SPEED_UP_MANY: Final = 100.0
MOST_GROWTH: Final = 2.5
WANTED_GAIN_AGAIN: Final = 2.0
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
        return cls(runs[0].title, runs[0].subscriptions, seconds, runs[0].rows, peak)

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
    first: JobRun
    again: JobRun
    large: JobRun
    warm: dict[str, JobRun]  # first, again, other, large in a session that was up
    push: PushFigures

    def speed_up(self, run: JobRun) -> float:
        """How many times faster than PostGIS would be."""
        return self.peer.seconds_for(run.subscriptions) / run.seconds

    def aims(self) -> list[tuple[str, float, str, bool]]:
        """What was to be reached: name, figure, aim, whether it is reached.

        Judged by spark-submit, from the start of the process to its end.
        """
        first, again, large = self.first, self.again, self.large
        few, many = f"{first.subscriptions:,}", f"{large.subscriptions:,}"
        return [
            _at_least(f"times PostGIS at {few}", self.speed_up(first), WANTED_SPEED_UP_FEW),
            _at_least(f"times PostGIS at {many}", self.speed_up(large), WANTED_SPEED_UP_MANY),
            _at_most("growth of time", large.seconds / first.seconds, MOST_GROWTH),
            _at_least("first run / repeated run", first.seconds / again.seconds, WANTED_GAIN_AGAIN),
            _at_least("push / plain pipeline", self.push.ratio, WANTED_PUSH_RATIO),
        ]

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
            "| run | subscriptions | seconds | rows | times PostGIS | peak memory |",
            "|---|--:|--:|--:|--:|--:|",
            *(self._line("spark-submit", run) for run in (self.first, self.again, self.large)),
            *(self._line("session that is up", run) for run in self.warm.values()),
            "",
            (
                "Medians of several runs. *first*: on a world as an import leaves it, so related "
                "pairs are joined and kept; *large* too. *again*: the same subscriptions. *other*: "
                "as many others, whose sets are known in part at most. The session had run some of "
                "each before."
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
            f"| {where}, {run.title} | {run.subscriptions:,} | {run.told()} | {run.rows:,} "
            f"| {self.speed_up(run):.0f} | {run.peak_megabytes:,.0f} MB |"
        )

    def _plot(self, path: Path) -> None:
        runs = (self.first, self.large)
        counts = [run.subscriptions for run in runs]
        figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
        peer = [self.peer.seconds_for(count) for count in counts]
        axes.loglog(counts, peer, "o--", color="#d55e00", label="PostGIS, one by one (projected)")
        warm_first, warm_again = self.warm["first"], self.warm["again"]
        warm_large = self.warm["large"]
        # What is said of a line stands on its free side.
        for title, colour, up, first, again, large in (
            ("spark-submit", "#0072b2", 7, self.first, self.again, self.large),
            ("session that is up", "#009e73", -15, warm_first, warm_again, warm_large),
        ):
            ours = [first.seconds, large.seconds]
            axes.loglog(counts, ours, "o-", color=colour, label=f"{title}, first run")
            for run in (first, large):
                axes.annotate(
                    f"{self.speed_up(run):.0f} times PostGIS",
                    (run.subscriptions, run.seconds),
                    xytext=(6 if run is first else -6, up),
                    textcoords="offset points",
                    ha="left" if run is first else "right",
                    color=colour,
                )
            axes.loglog(
                [again.subscriptions], [again.seconds], "s", color=colour, label=f"{title}, again"
            )
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
