"""The report of ``bench.switch``: latency and memory with and without a switch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

MOST_RISE_MS: Final = 50.0
MOST_GENERATIONS: Final = 1.0
MOST_SECONDS_TO_NOTICE: Final = 1.0


@dataclass(frozen=True)
class Timed:
    """Latencies of some messages, in milliseconds."""

    messages: int
    p50: float
    p99: float
    p999: float
    most: float

    @classmethod
    def of(cls, seconds: Any) -> Timed:
        """Return the latencies out of the times that messages took."""
        p50, p99, p999 = (float(np.quantile(seconds, share)) * 1e3 for share in (0.5, 0.99, 0.999))
        return cls(len(seconds), p50, p99, p999, float(seconds.max()) * 1e3)


@dataclass(frozen=True, kw_only=True)
class SwitchReport:
    """All figures of one run; memory is resident, of the broker process unless said otherwise."""

    command: str
    subscriptions: int
    pairs: int
    entities: int
    rate: float
    load_average: float
    quiet: Timed
    switching: Timed
    seconds_to_switch: list[float]
    generation_megabytes: float
    before_megabytes: float
    peak_megabytes: float
    after_megabytes: float
    # With the resolver and the loader.
    tree_before_megabytes: float
    tree_peak_megabytes: float
    # Seconds from a switch in Redis until the broker knows of it.
    noticed_by_message: list[float]
    noticed_by_look: list[float]

    def p99_rise(self) -> float:
        """Return by how many milliseconds the p99 is higher around a switch."""
        return self.switching.p99 - self.quiet.p99

    def generations_more(self) -> float:
        """Return the rise of the broker's memory, in sizes of one generation."""
        return (self.peak_megabytes - self.before_megabytes) / self.generation_megabytes

    def reached(self) -> bool:
        """Return whether all aims are reached."""
        noticed = max([*self.noticed_by_message, *self.noticed_by_look], default=0.0)
        return (
            self.p99_rise() < MOST_RISE_MS
            and self.generations_more() <= MOST_GENERATIONS
            and noticed <= MOST_SECONDS_TO_NOTICE
        )

    def as_json(self) -> str:
        """Return the report as JSON."""
        judged = {
            "p99_rise_ms": self.p99_rise(),
            "generations_more": self.generations_more(),
            "reached": self.reached(),
        }
        return json.dumps(asdict(self) | judged, indent=1)

    def markdown(self) -> str:
        """Return the report as a page for people."""
        seconds = ", ".join(f"{one:g}" for one in self.seconds_to_switch)
        lines = [
            "# A broker changes over to another generation",
            "",
            f"Made by `{self.command}`. A broker holds",
            f"{self.subscriptions:,} restored subscriptions with {self.pairs:,} pairs on a city of",
            f"{self.entities:,} entities. A client publishes to itself, {self.rate:,.0f} messages",
            "a second, about entities of its neighborhood. Meanwhile another generation comes into",
            "force, of another world version: the broker loads the world and the generation beside",
            f"the old ones and changes over. Load of the machine before: {self.load_average:.1f}.",
            "",
            "| latency, ms | messages | p50 | p99 | p99.9 | max |",
            "|---|---|---|---|---|---|",
            _row("without a switch", self.quiet),
            _row("from the notice until the old generation is taken apart", self.switching),
            "",
            f"The p99 rises by **{self.p99_rise():.1f} ms** (less than {MOST_RISE_MS:.0f} wanted).",
            f"From the notice to the switch: {seconds} seconds.",
            "",
            "| resident memory, MB | broker | with resolver and loader |",
            "|---|---|---|",
            f"| before | {self.before_megabytes:,.0f} | {self.tree_before_megabytes:,.0f} |",
            f"| highest | {self.peak_megabytes:,.0f} | {self.tree_peak_megabytes:,.0f} |",
            f"| after | {self.after_megabytes:,.0f} | |",
            f"| one generation | {self.generation_megabytes:,.0f} | |",
            "",
            f"The broker's memory rises by **{self.generations_more():.2f} generations** (at most",
            f"{MOST_GENERATIONS:.0f} wanted). One generation is what the broker grew by when it",
            "loaded its first one. The second column counts pages that processes share once; while",
            "a generation is loaded there are two resolvers, each with its own world.",
            "",
            f"| a switch is noticed ({MOST_SECONDS_TO_NOTICE:g} s at most wanted) | seconds |",
            "|---|---|",
            f"| by the message of Redis | {_listed(self.noticed_by_message)} |",
            f"| by looking, the message is lost | {_listed(self.noticed_by_look)} |",
            "",
            "From a push or rebuild to the next, what the push itself costs: `make bench-rebuild`.",
        ]
        return "\n".join(lines) + "\n"


def _listed(seconds: list[float]) -> str:
    return ", ".join(f"{one:.3f}" for one in seconds)


def _row(title: str, timed: Timed) -> str:
    return (
        f"| {title} | {timed.messages:,} | {timed.p50:.2f} | {timed.p99:.2f} | "
        f"{timed.p999:.2f} | {timed.most:.1f} |"
    )
