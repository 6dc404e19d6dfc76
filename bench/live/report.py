"""The figures of the live benchmark as JSON and as a page of Markdown."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles

from testing.processor import cpu_name

WANTED_RATIO = 5.0
WANTED_LOAD_SECONDS = 10.0


POSTGIS, POSTGIS_FRONTIER = "PostGIS", "PostGIS, repeated stages from the last members only"
COLD, WARMED = "new references, nothing remembered", "new references, warmed up"
AGAIN, PARSE = "the same again", "parsing"


@dataclass(frozen=True)
class PatternFigures:
    """One pattern: by state, one number for each call, by the clock and on the processor."""

    title: str
    references: int
    rows: float
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu_seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, state: str, seconds: float, cpu_seconds: float) -> None:
        """Keep what one call took."""
        self.seconds.setdefault(state, []).append(seconds)
        self.cpu_seconds.setdefault(state, []).append(cpu_seconds)

    def peer(self, figures: dict[str, list[float]]) -> list[float]:
        """Return the quicker way to write the procedure."""
        return min((figures[POSTGIS], figures[POSTGIS_FRONTIER]), key=median)

    def ratio(self, figures: dict[str, list[float]], state: str) -> float:
        """Return how many times faster it is than the peer."""
        return median(self.peer(figures)) / median(figures[state])

    def line(self, figures: dict[str, list[float]]) -> str:
        """Return a line of the table."""
        ours = [
            f"{_times(figures[state])} **{self.ratio(figures, state):.1f}x**"
            for state in (COLD, WARMED, AGAIN)
        ]
        cells = (self.title, f"{self.rows:.0f}", _times(self.peer(figures)), *ours)
        return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class LiveReport:
    """Everything that one run measured."""

    command: str
    entities: int
    postgis: str
    load_average: float
    snapshot_seconds: float
    index_seconds: float
    warm_up_seconds: float
    rss_start: float
    rss_snapshot: float
    rss_index: float
    rss_warm: float
    pair_megabytes: float
    pairs: int
    patterns: list[PatternFigures]

    def reached(self) -> bool:
        """Whether every aim is reached with new references in a world whose pairs are warmed up.

        With nothing remembered the figures stand beside it, and are not judged.
        """
        quick = all(
            pattern.ratio(pattern.seconds, WARMED) >= WANTED_RATIO for pattern in self.patterns
        )
        return quick and self.snapshot_seconds <= WANTED_LOAD_SECONDS

    def write(self, folder: Path) -> None:
        """Write live.json and live.md."""
        folder.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "machine": platform.machine(), "cpu": cpu_name()}
        content = {**asdict(self), **machine, "python": platform.python_version()}
        (folder / "live.json").write_text(json.dumps(content, indent=1) + "\n")
        (folder / "live.md").write_text(self.markdown())

    def markdown(self) -> str:
        """Return the report as a page for people."""
        where = f"{cpu_name()}, {os.cpu_count()} cores"
        pairs = f"{self.pairs:,} pairs in {self.pair_megabytes:.0f} MB"
        parse = 1e3 * max(median(pattern.seconds[PARSE]) for pattern in self.patterns)
        head = f"| rows | PostGIS | {COLD} | {WARMED} | {AGAIN} |"
        rule = "|---|--:|--:|--:|--:|--:|"
        lines = [
            f"`{self.command}`, {where}, load average {self.load_average:.1f} at the start",
            "",
            f"City of {self.entities:,} entities; {self.postgis}",
            "",
            f"| by the clock {head}",
            rule,
            *(pattern.line(pattern.seconds) for pattern in self.patterns),
            "",
            f"| on the processor {head}",
            rule,
            *(pattern.line(pattern.cpu_seconds) for pattern in self.patterns),
            "",
            "Milliseconds, median (90th percentile); in bold how many times faster than PostGIS.",
            "Both start from the parsed descriptor and end with all rows in the client's memory;",
            f"parsing takes {parse:.2f} ms or less.",
            "",
            "| | seconds | resident memory after it |",
            "|---|--:|--:|",
            f"| start | | {self.rss_start:.0f} MB |",
            f"| snapshot from Delta | {self.snapshot_seconds:.2f} | {self.rss_snapshot:.0f} MB |",
            f"| index | {self.index_seconds:.2f} | {self.rss_index:.0f} MB |",
            f"| warm-up: {pairs} | {self.warm_up_seconds:.2f} | {self.rss_warm:.0f} MB |",
        ]
        return "\n".join(lines) + "\n"


def _times(times: list[float]) -> str:
    return f"{1e3 * median(times):.2f} ({1e3 * quantiles(times, n=10)[-1]:.2f})"
