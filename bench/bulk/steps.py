"""What each step of a bulk run shuffles, and how unequal its tasks are.

``spark-submit --conf spark.eventLog.enabled=true --conf spark.eventLog.dir=file://$PWD/out/events
--conf spark.eventLog.compress=false --conf spark.eventLog.rolling.enabled=false
jobs/resolve_neighborhoods.py …``, then ``python -m bench.bulk.steps out/events/NAME``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

DESCRIPTION = "spark.job.description"


@dataclass
class Step:
    """The stages of one step, and the seconds of their tasks."""

    written: int = 0
    seconds: dict[int, list[float]] = field(default_factory=dict)

    def skew(self) -> float:
        """The largest task beside the median one, in the stage where that is most."""
        spread = [max(each) / max(median(each), 0.001) for each in self.seconds.values()]
        return max(spread, default=1.0)


def steps_of(events: Iterator[dict[str, Any]]) -> dict[str, Step]:
    """Return the steps of a run in their order."""
    names: dict[int, str] = {}
    steps: dict[str, Step] = {}
    for event in events:
        if event["Event"] == "SparkListenerJobStart":
            step = (event.get("Properties") or {}).get(DESCRIPTION, "other")
            names |= dict.fromkeys(event["Stage IDs"], step)
        elif event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            step = steps.setdefault(names.get(event["Stage ID"], "other"), Step())
            metrics = event["Task Metrics"]
            step.written += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            seconds = metrics["Executor Run Time"] / 1_000
            step.seconds.setdefault(event["Stage ID"], []).append(seconds)
    return steps


def steps_of_log(log: Path) -> dict[str, tuple[int, int, float, float, float]]:
    """By step: stages, tasks, megabytes shuffled, seconds of the largest task, skew."""
    with log.open("rb") as lines:
        steps = steps_of(json.loads(line) for line in lines)
    return {
        name: (
            len(step.seconds),
            sum(map(len, step.seconds.values())),
            step.written / 1e6,
            max(chain.from_iterable(step.seconds.values())),
            step.skew(),
        )
        for name, step in steps.items()
    }


def table(steps: dict[str, tuple[int, int, float, float, float]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| step | stages | tasks | shuffled | largest task | largest task / median |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, (stages, tasks, shuffled, largest, skew) in steps.items():
        yield f"| {name} | {stages} | {tasks} | {shuffled:,.1f} MB | {largest:.1f} s | {skew:.1f} |"


def main() -> int:
    """Print a table in Markdown."""
    print("\n".join(table(steps_of_log(Path(sys.argv[1])))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
