"""The figures of the bulk benchmark as Markdown and a plot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from bench.bulk.figures import (
    PUSHED,
    Comparison,
    JobRun,
    Part,
    PeerSample,
    PushFigures,
    Spread,
    job_run,
    read_part,
)
from bench.bulk.steps import table
from testing.processor import cpu_name

# By entities and subscriptions: at most so many times the seconds of the engine of 1a227ed.
MOST_OF_EARLIER: Final = {
    (225_150, 10_000): 1.7,
    (225_150, 100_000): 1.5,
    (225_150, 1_000_000): 1.3,
    (2_251_500, 1_000_000): 1.0,
    (10_000_000, 100_000): 0.7,
}
# From so many entities on, at most its memory as well.
MEMORY_COUNTS: Final = 2_251_500
# By subscriptions, in the city.
WANTED_SPEED_UP: Final = {100_000: 130.0, 1_000_000: 1_000.0}
WANTED_PUSH_RATIO: Final = 1.0
MOST_OF_LOCAL: Final = 1.3
MOST_SKEW: Final = 3.0


@dataclass(frozen=True)
class Aim:
    """What was to be reached; ``reached`` is None for what was not measured."""

    name: str
    figure: str
    wanted: str
    reached: bool | None

    def line(self) -> str:
        """A row of a table."""
        words = {True: "reached", False: "missed", None: "not run"}
        return f"| {self.name} | {self.figure} | {self.wanted} | {words[self.reached]} |"


@dataclass
class BulkReport:
    """All parts that have been measured."""

    parts: dict[str, Part] = field(default_factory=dict)
    turns: list[Comparison] = field(default_factory=list)
    others: list[JobRun] = field(default_factory=list)  # again, and in a session that is up
    spread: Spread | None = None
    peer: PeerSample | None = None
    pushes: dict[str, PushFigures] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, names: tuple[str, ...]) -> BulkReport:
        """Read what is there."""
        found = cls()
        for name in names:
            part = read_part(folder, name)
            if part is not None:
                found.parts[name] = part
                found._take(name, part)
        return found

    def _take(self, name: str, part: Part) -> None:
        for each in part.figures:
            if name in ("city", "cities", "country"):
                self.turns.append(Comparison.of_json(each))
            elif name in ("again", "session"):
                self.others.append(job_run(each))
            elif name == "spread":
                self.spread = Spread.of_json(each)
            elif name == "postgis":
                self.peer = PeerSample(**each)
            else:
                self.pushes[name] = PushFigures(**each)

    def aims(self) -> Iterator[Aim]:
        """Everything that was to be reached, by spark-submit from its start to its end."""
        by_size = {(each.entities, each.this.subscriptions): each for each in self.turns}
        for (entities, count), most in MOST_OF_EARLIER.items():
            name, found = f"{entities:,} / {count:,}", by_size.get((entities, count))
            ratio = None if found is None else found.ratio
            yield _at_most(f"{name}: seconds / engine of 1a227ed", ratio, most)
            if entities >= MEMORY_COUNTS:
                memory = found and found.this.peak_megabytes / found.before.peak_megabytes
                yield _at_most(f"{name}: memory / engine of 1a227ed", memory, 1.0)
            if entities < MEMORY_COUNTS and count in WANTED_SPEED_UP:
                times = found and self.peer and self._times(found.this)
                yield _at_least(f"{name}: times PostGIS", times or None, WANTED_SPEED_UP[count])
        spread = self.spread
        yield _at_most("two executors / one process", spread and spread.ratio, MOST_OF_LOCAL)
        skew = max(step[-1] for step in spread.steps.values()) if spread else None
        yield _at_most("largest task / median task, worst stage", skew, MOST_SKEW)
        for part, pairs in PUSHED.items():
            ratio = self.pushes[part].ratio if part in self.pushes else None
            name = f"push of {pairs:,} pairs / plain pipeline"
            yield _at_least(name, ratio, WANTED_PUSH_RATIO)

    def reached(self) -> bool:
        """Whether every aim is reached that was measured."""
        return all(aim.reached is not False for aim in self.aims())

    def write(self, folder: Path) -> None:
        """Write bulk.md and bulk.png."""
        (folder / "bulk.md").write_text(self.markdown())
        if self.turns:
            self._plot(folder / "bulk.png")

    def markdown(self) -> str:
        """Tables of the runs, the steps and the aims."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"{cpu_name()}, {os.cpu_count()} cores. Each part was run by itself:"
        yield ""
        for name, part in self.parts.items():
            load = f"load average {part.load_average:.1f} at the start"
            yield f"- {name}: `{part.command}`, commit {part.commit}, {load}"
        yield ""
        yield "| entities | subscriptions | engine | seconds | core-seconds | memory | rows |"
        yield "|--:|--:|---|--:|--:|--:|--:|"
        for each in self.turns:
            for engine, run in (("1a227ed", each.before), ("this", each.this)):
                yield (
                    f"| {each.entities:,} | {run.subscriptions:,} | {engine} | {run.told()} "
                    f"| {run.core_seconds:.1f} | {run.peak_megabytes:,.0f} MB | {run.rows:,} |"
                )
        yield ""
        yield (
            "Both engines ran in turns, by `spark-submit` from the start of the process to its "
            "end, on a world as an import leaves it: pairs are joined in each run. Medians, and "
            "how far the rounds lie apart."
        )
        if self.peer is not None:
            peer = self.peer
            yield ""
            yield (
                f"{peer.versions}: {peer.subscriptions} subscriptions in {peer.seconds:.1f} s "
                f"({peer.tuned_seconds:.1f} s when repeated stages join the last members only)."
            )
        if self.others:
            yield from ("", "| run in the city | subscriptions | seconds | memory |")
            yield "|---|--:|--:|--:|"
            for run in self.others:
                what = "spark-submit" if run.core_seconds else "session that is up"
                yield (
                    f"| {what}, {run.title} | {run.subscriptions:,} | {run.told()} "
                    f"| {run.peak_megabytes:,.0f} MB |"
                )
            yield ""
            yield (
                "*again*: the same subscriptions, whose pairs and sets are kept. *other*: as many "
                "others, whose sets are known in part at most."
            )
        for push in self.pushes.values():
            yield ""
            yield (
                f"Push: {push.pairs:,} pairs, {push.pairs_per_second:,.0f} a second, "
                f"plain pipeline {push.plain_pairs_per_second:,.0f} a second, "
                f"{push.bytes_per_pair:.1f} bytes a pair."
            )
        if self.spread is not None:
            yield from self._spread_lines(self.spread)
        yield from ("", "| aim | figure | wanted | |", "|---|--:|--:|---|")
        yield from (aim.line() for aim in self.aims())

    def _spread_lines(self, spread: Spread) -> Iterator[str]:
        yield ""
        yield (
            f"{spread.entities:,} entities, {spread.local.subscriptions:,} subscriptions: "
            f"`local[2]` {spread.local.seconds:.1f} s, "
            f"`local-cluster` with two executors of one core {spread.executors.seconds:.1f} s. "
            "The steps of the first:"
        )
        yield ""
        yield from table(spread.steps)

    def _times(self, run: JobRun) -> float | None:
        peer = self.peer
        return None if peer is None else peer.seconds_for(run.subscriptions) / run.seconds

    def _plot(self, path: Path) -> None:
        figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
        city = [each for each in self.turns if each.entities < MEMORY_COUNTS]
        counts = [each.this.subscriptions for each in city]
        if self.peer is not None:
            peer = [self.peer.seconds_for(count) for count in counts]
            axes.loglog(
                counts, peer, "o--", color="#d55e00", label="PostGIS, one by one (projected)"
            )
        for title, colour, runs in (
            ("this engine", "#0072b2", [each.this for each in city]),
            ("engine of 1a227ed", "#999999", [each.before for each in city]),
        ):
            seconds = [run.seconds for run in runs]
            axes.loglog(counts, seconds, "o-", color=colour, label=title)
            for run in runs if title == "this engine" and self.peer else ():
                axes.annotate(
                    f"{self._times(run):.0f} times PostGIS", (run.subscriptions, run.seconds),
                    xytext=(-6, 9), textcoords="offset points", ha="right", color=colour,
                )  # fmt: skip
        axes.set_xlabel("subscriptions")
        axes.set_ylabel("seconds")
        axes.set_title("Neighborhoods resolved in bulk, 225,150 entities")
        axes.grid(which="both", alpha=0.25)
        figure.legend(loc="outside lower center", ncols=2)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def _at_least(name: str, figure: float | None, wanted: float) -> Aim:
    return _aim(name, figure, f"≥ {wanted:g}", figure is not None and figure >= wanted)


def _at_most(name: str, figure: float | None, most: float) -> Aim:
    return _aim(name, figure, f"≤ {most:g}", figure is not None and figure <= most)


def _aim(name: str, figure: float | None, wanted: str, reached: bool) -> Aim:
    return (
        Aim(name, "", wanted, None)
        if figure is None
        else Aim(name, f"{figure:.2f}", wanted, reached)
    )
