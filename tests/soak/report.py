"""The report of ``make soak``: a page, a plot of latency with what was done to the system, JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
from matplotlib import pyplot as plt

from testing.processor import cpu_name
from tests.soak.figures import SoakFigures

MARKS: Final = {
    "rebuild killed": ("#d55e00", "rebuild killed"),
    "Redis restarted": ("#cc79a7", "Redis restarted"),
    "broker killed": ("#000000", "broker killed"),
    "rollback": ("#009e73", "rollback"),
}


@dataclass(frozen=True)
class SoakReport:
    """One run."""

    options: dict[str, Any]
    checked_by_definition: int
    command: str
    figures: SoakFigures

    @property
    def is_right(self) -> bool:
        """Nothing lost, nothing wrong, no error in the broker's log."""
        counts = self.figures.counts
        return counts["findings"] == 0 and counts["tracebacks"] == 0

    def as_json(self) -> str:
        """Everything."""
        content = {
            "command": self.command, "right": self.is_right, "cpu": cpu_name(),
            "options": {name: str(value) for name, value in self.options.items()},
            "checkedByDefinition": self.checked_by_definition,
        }  # fmt: skip
        return json.dumps(content | asdict(self.figures), indent=1)

    def markdown(self, plot: str) -> str:
        """The page for people."""
        figures, counts, options = self.figures, self.figures.counts, self.options
        outcome = (
            "**None lost, none wrong.**" if self.is_right
            else f"**{counts['findings']} findings, {counts['tracebacks']} errors in the log.**"
        )  # fmt: skip
        loads = "{:.1f} at the start and {:.1f} at the end".format(*figures.load_averages)
        size = f"{counts['messages']:,} messages at {options['rate']:g} a second (QoS 1)"
        who = f"{options['subscribers']} subscribers with up to {options['nsids']}"
        lines = [
            "# Soak: rebuilds, kills and churn under load",
            "",
            f"Made by `{self.command}` on two cores ({cpu_name()}), load average {loads}:",
            "other work ran beside it. It proves who got what; its times are no measurement.",
            "",
            f"{outcome} {size}, {figures.seconds / 60:.1f} minutes, about entities of a city of",
            f"{options['entities']:,}, to {who} of {options['neighborhoods']} neighborhoods each,",
            "and to one with a plain subscription. A checker that knows every version of the world",
            "says for each message who had to get it; of its memberships,",
            f"{self.checked_by_definition} were compared with the definition, pair by pair.",
            "",
            "| what | count |",
            "|---|---|",
        ]
        lines += [f"| {name} | {count:,} |" for name, count in counts.items()]
        lines += ["", *self._times(), "", f"![Latency over time]({plot})", "", *self._findings()]
        return "\n".join(lines).rstrip() + "\n"

    def _times(self) -> list[str]:
        rows = [
            "| deliveries, from when the message was due | count | p50 ms | p99 ms | highest ms |",
            "|---|---|---|---|---|",
        ]
        for name, one in self.figures.latencies.items():
            rows.append(
                f"| {name} | {one['deliveries']:,} | {one['p50']:.1f} | {one['p99']:.1f} | "
                f"{one['highest']:.0f} |"
            )
        rows += ["", *self._notices()]
        return rows

    def _notices(self) -> list[str]:
        """From the switch in Redis to the filter of the broker."""
        noticed = [one.noticed_seconds for one in self.figures.switches if not one.has_kill]
        if not noticed:
            return []
        times = f"median {np.median(noticed):.2f} s, longest {max(noticed):.2f} s"
        return [
            f"From the switch in Redis to the new generation in the broker's filter: {times}.",
            "Meanwhile the broker loads it beside the old one, which serves on.",
            "*Calm* is without the second around each switch, the restart of Redis and the kill of",
            "the broker, and, as *near a switch*, without clients that were not connected.",
        ]

    def _findings(self) -> list[str]:
        if not self.figures.findings:
            return []
        rows = ["| finding | what |", "|---|---|"]
        return rows + [
            f"| {one['kind']} | `{one['text'][:300]}` |" for one in self.figures.findings
        ]

    def plot(self, path: Path) -> None:
        """Latency over time, memory below, and everything that was done marked."""
        figures = self.figures
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(13, 7), sharex=True, height_ratios=(3, 1), layout="constrained"
        )
        at, _, p50, p99, highest = np.array(figures.over_time).T
        above.semilogy(at, highest, color="#bbbbbb", linewidth=0.8, label="highest")
        above.semilogy(at, p99, color="#d55e00", linewidth=1.2, label="p99")
        above.semilogy(at, p50, color="#0072b2", linewidth=1.2, label="p50")
        for number, switch in enumerate(figures.switches):
            label = "new generation in force" if number == 0 else None
            above.axvline(switch.at, color="#56b4e9", linewidth=0.8, linestyle=":", label=label)
        self._mark(above)
        above.set_ylabel("ms from due to read, each 2 s, connected clients")
        above.grid(visible=True, axis="y", alpha=0.3)
        above.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
        if figures.memory:
            times, broker, redis = np.array(figures.memory).T
            below.plot(times, broker, color="#0072b2", label="broker")
            below.plot(times, redis, color="#cc79a7", label="Redis")
            below.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
        below.set_ylabel("MB resident")
        below.set_ylim(bottom=0)
        below.set_xlabel("seconds")
        counts = figures.counts
        above.set_title(
            f"{counts['messages']:,} messages, {counts['rebuilds']} rebuilds, "
            f"{counts['rebuild kills']} kills of rebuilds, {counts['findings']} findings"
        )
        figure.savefig(path, dpi=110)
        plt.close(figure)

    def _mark(self, axes: Any) -> None:
        named: set[str] = set()
        for event in self.figures.events:
            if event["kind"] not in MARKS:
                continue
            color, label = MARKS[event["kind"]]
            shown = label if label not in named else None
            named.add(label)
            if event["kind"] == "rebuild killed":
                axes.plot(
                    event["begun"], 0.03, "x", color=color, transform=axes.get_xaxis_transform(),
                    label=shown, clip_on=False,
                )  # fmt: skip
            else:
                axes.axvspan(event["begun"], event["ended"], color=color, alpha=0.25, label=shown)
