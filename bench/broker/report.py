"""The figures of the broker benchmark as JSON, Markdown and plots, and which aims they reach."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.broker.aims import Aim, Latency, latency_lines, qos_aims
from bench.broker.plots import (
    AMQTT,
    MEMORY,
    MOSQUITTO,
    NONE,
    REDIS,
    plot_filter,
    plot_latencies,
    plot_rates,
)
from bench.broker.rate import Rate
from testing.processor import cpu_name

STREAM, SINGLES = "stream", "one message a packet, 100 publishers"
ADDED_MEMBERS: Final = 2_000
FEW, MANY = 1_000, 100_000


@dataclass
class BrokerReport:
    """Everything that one run measured; ``rates`` are by setting and broker, one for each round."""

    command: str
    load_average: float
    versions: str = ""
    seconds: float = 0.0
    rates: dict[str, dict[str, list[Rate]]] = field(default_factory=dict)
    filter: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    latencies: list[Latency] = field(default_factory=list)

    def add(self, setting: str, broker: str, rate: Rate) -> None:
        """Add one run of a round."""
        self.rates.setdefault(setting, {}).setdefault(broker, []).append(rate)

    def add_latency(self, latency: Latency) -> None:
        """Add one run at a fixed rate."""
        self.latencies.append(latency)

    def ratio(self, setting: str, broker: str, other: str) -> float:
        """Return how many times more publishes a second: the median of the rounds' ratios."""
        both = self.rates[setting]
        pairs = zip(both[broker], both[other], strict=True)
        return median(one.per_second / two.per_second for one, two in pairs)

    def aims(self) -> list[Aim]:
        """Return the aims that this run can judge."""
        found = []
        if STREAM in self.rates:
            found += [
                Aim("times Mosquitto, stream", self.ratio(STREAM, MEMORY, MOSQUITTO), 2.0),
                Aim("times amqtt, stream", self.ratio(STREAM, MEMORY, AMQTT), 30.0),
                Aim(
                    "share of throughput that the filter costs, stream",
                    1 - self.ratio(STREAM, MEMORY, NONE), 0.15, at_least=False,
                ),
                Aim("Redis mode, warm, of memory mode", self.ratio(STREAM, REDIS, MEMORY), 0.8),
            ]  # fmt: skip
        if SINGLES in self.rates:
            ratio = self.ratio(SINGLES, MEMORY, MOSQUITTO)
            found.append(Aim(f"times Mosquitto, {SINGLES}", ratio, 1.0))
        found += qos_aims(self)
        if self.filter:
            by_count = {one["subscriptions"]: one for one in self.filter["subscriptions"]}
            by_size = {one["members"]: one for one in self.filter["members"]}
            points = (*by_count.values(), *by_size.values())
            worst = max(max(one["median_us"], one["first_us"]) for one in points)
            growth = by_count[MANY]["median_us"] / by_count[FEW]["median_us"]
            added = max(by_size[ADDED_MEMBERS]["add_ms"].values())
            found += [
                Aim("µs, filter, median, slowest point, first looks", worst, 5.0, at_least=False),
                Aim(
                    f"times slower at {MANY:,} subscriptions than at {FEW:,}",
                    growth, 1.3, at_least=False,
                ),
                Aim(
                    f"ms to add {ADDED_MEMBERS:,} members, median, the worst churn",
                    added, 5.0, at_least=False,
                ),
            ]  # fmt: skip
        return found

    def reached(self) -> bool:
        """Whether every aim is reached."""
        return all(aim.reached for aim in self.aims())

    def take_filter(self, figures: dict[str, list[dict[str, Any]]]) -> None:
        """Take the figures that ``bench.broker.filter`` printed."""
        self.filter = figures

    def write(self, folder: Path) -> None:
        """Write broker.json, broker-figures.md and the plots."""
        folder.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "cpu": cpu_name(), "python": platform.python_version()}
        aims = [{**asdict(aim), "reached": aim.reached} for aim in self.aims()]
        content = {**asdict(self), **machine, "aims": aims}
        (folder / "broker.json").write_text(json.dumps(content, indent=1) + "\n")
        (folder / "broker-figures.md").write_text(self.markdown())
        if self.rates:
            plot_rates(self.rates, folder / "broker-throughput.png")
        if self.latencies:
            plot_latencies(self.latencies, folder / "broker-latency.png")
        if self.filter:
            plot_filter(self.filter, folder / "broker-filter.png")

    # --- words

    def markdown(self) -> str:
        """Return the report as a page for people."""
        lines = [
            (
                f"`{self.command}`, {cpu_name()}, {os.cpu_count()} cores, Python "
                f"{platform.python_version()}, {self.versions}, load average "
                f"{self.load_average:.1f} at the start, {self.seconds / 60:.1f} minutes"
            ),
            "",
            "| aim | figure | wanted | |",
            "|---|--:|--:|---|",
            *(aim.line() for aim in self.aims()),
        ]
        if self.rates:
            lines += self._rate_lines()
        if self.latencies:
            lines += latency_lines(self)
        if self.filter:
            lines += self._filter_lines()
        return "\n".join(lines) + "\n"

    def _rate_lines(self) -> list[str]:
        lines = [
            "",
            (
                "| setting | broker | publishes a second | lowest to highest | times Mosquitto "
                "| broker's µs each | broker's core | generator's core |"
            ),
            "|---|---|--:|--:|--:|--:|--:|--:|",
        ]
        for setting, brokers in self.rates.items():
            for name, rates in brokers.items():
                each = sorted(rate.per_second for rate in rates)
                spread = f"{each[0]:,.0f} to {each[-1]:,.0f}"
                cost = median(1e6 * rate.broker_share / rate.per_second for rate in rates)
                ratio = self.ratio(setting, name, MOSQUITTO) if MOSQUITTO in brokers else 0.0
                lines.append(
                    f"| {setting} | {name} | {median(each):,.0f} | {spread} "
                    f"| {ratio:.2f} | {cost:.1f} "
                    f"| {median(rate.broker_share for rate in rates):.0%} "
                    f"| {median(rate.generator_share for rate in rates):.0%} |"
                )
        return lines

    def _filter_lines(self) -> list[str]:
        lines = [
            "",
            (
                "| subscriptions | members of each | memory: median µs | p99 | first look "
                "| Redis, warm: median µs | p99 | add, ms | churn 10/s | churn 100/s |"
            ),
            "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for axis in ("subscriptions", "members"):
            for one in self.filter[axis]:
                added = [f"{one['add_ms'][churn]:.2f}" for churn in ("0", "10", "100")]
                lines.append(
                    f"| {one['subscriptions']:,} | {one['members']:,} | {one['median_us']:.2f} "
                    f"| {one['p99_us']:.2f} | {one['first_us']:.2f} | {one['redis_median_us']:.2f} "
                    f"| {one['redis_p99_us']:.2f} | {' | '.join(added)} |"
                )
        lines += [
            f"| {one['subscriptions']:,} | {one['members']:,} | {one['median_us']:.2f} "
            f"| {one['p99_us']:.2f} | {one['first_us']:.2f} | | | | | |"
            for one in self.filter["equal_pairs"]
        ]
        return lines
