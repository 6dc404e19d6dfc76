"""The report of ``bench.rebuild``: what each rebuild took, and what a small change spares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

AIM: Final = 5.0
STEPS: Final = ("import", "compare", "resolve", "push", "clean")
SPARK_TITLE: Final = "## On Spark"


@dataclass(frozen=True)
class TimedRebuild:
    """One process from its start to its end, and the steps as its record has them."""

    title: str
    seconds: float
    version: int
    steps: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class RebuildBenchReport:
    """All runs of one benchmark."""

    entities: int
    subscriptions: int
    share: float
    load_average: float
    # Whether the generation made by differences is that of a full rebuild, by count and checksum,
    # and the memberships in Delta are those.
    same_content: bool
    runs: tuple[TimedRebuild, ...]

    def incremental_seconds(self) -> float:
        """Return the median of the incremental rebuilds."""
        return median(run.seconds for run in self.runs if run.title == "incremental")

    def ratios(self) -> dict[str, float]:
        """Return how many times faster it is than each full rebuild."""
        full = (run for run in self.runs if run.title.startswith("full, "))
        return {run.title: run.seconds / self.incremental_seconds() for run in full}

    def reached(self) -> bool:
        """Return whether all aims are reached."""
        return self.same_content and min(self.ratios().values(), default=0.0) >= AIM

    def as_json(self) -> str:
        """Return the report as JSON."""
        content = asdict(self) | {"ratios": self.ratios(), "reached": self.reached()}
        return json.dumps(content, indent=1)

    def markdown(self) -> str:
        """Return the report as a page for people."""
        size = f"{self.entities:,} entities, {self.subscriptions:,} subscriptions"
        lines = [
            f"# Rebuilds after a change of {self.share:.0%} ({size})",
            "",
            "Made by `make bench-rebuild`. Seconds of a whole process, import and all. Entities",
            "were added, removed, moved and recategorised all over the city, a quarter each.",
            "",
            *table_of_runs(self.runs),
        ]
        lines.append("")
        lines += [
            f"- {times:.1f} times faster than {name}" for name, times in self.ratios().items()
        ]
        same = "the same pairs as" if self.same_content else "OTHER PAIRS THAN"
        outcome = "reached" if self.reached() else "missed"
        load = f"load average at the start {self.load_average:.1f} on two cores"
        lines += [
            f"- the generation made by differences holds {same} a full rebuild of the same",
            "  version, in Redis and, row by row, in Delta",
            f"- aim: {AIM:g} times faster than each full one, {outcome}; {load}",
        ]
        return "\n".join(lines) + "\n"


def table_of_runs(runs: Sequence[TimedRebuild]) -> list[str]:
    """Return the lines of a table: seconds by step, and what was resolved and pushed."""
    lines = [
        "| rebuild | seconds | " + " | ".join(STEPS) + " | neighborhoods resolved | pairs |",
        "|---|---|" + "---|" * (len(STEPS) + 2),
    ]
    for run in runs:
        steps = " | ".join(f"{run.steps.get(step, {}).get('seconds', 0):.1f}" for step in STEPS)
        resolve, push = run.steps["resolve"], run.steps["push"]
        lines.append(
            f"| {run.title} | {run.seconds:.1f} | {steps} | {resolve['resolved']:,} of "
            f"{resolve['neighborhoods']:,} ({resolve['engine']}) | "
            f"{push['pairs']:,} ({push['how']}) |"
        )
    return lines


def with_section(page: str, section: str) -> str:
    """Return the page with what stands below the title of the runs on Spark."""
    return f"{page}\n{SPARK_TITLE}{section}" if section else page
