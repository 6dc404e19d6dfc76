"""What was to be reached, and what a run at QoS 1 says about it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.broker.plots import MEMORY, MOSQUITTO, NONE

if TYPE_CHECKING:
    from bench.broker.report import BrokerReport

QOS_1_STREAM, QOS_1_SINGLES = "QoS 1, stream", "QoS 1, one message a packet"
QOS_1_FAN_OUT, QOS_2_STREAM = "QoS 1, fan-out 1 to 10", "QoS 2, stream"
# Added to the name of a setting.
DURABLE: Final = ", durable"


@dataclass(frozen=True)
class Aim:
    """What was to be reached."""

    name: str
    figure: float
    wanted: float
    at_least: bool = True

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.figure >= self.wanted if self.at_least else self.figure <= self.wanted

    def line(self) -> str:
        """Return a row of the table."""
        sign = "≥" if self.at_least else "≤"
        verdict = "reached" if self.reached else "**not reached**"
        return f"| {self.name} | {self.figure:.2f} | {sign} {self.wanted:g} | {verdict} |"


@dataclass(frozen=True)
class Latency:
    """One run at a fixed rate."""

    rate: int
    broker: str
    median_ms: float
    p99_ms: float


def qos_aims(report: BrokerReport) -> list[Aim]:
    """Return the aims of QoS 1 that a run can judge."""
    found = []
    for setting, wanted in ((QOS_1_STREAM, 1.5), (QOS_1_SINGLES, 1.0)):
        if setting in report.rates:
            # With the filter and without it: the lower one counts.
            ratio = min(report.ratio(setting, one, MOSQUITTO) for one in (MEMORY, NONE))
            found.append(Aim(f"times Mosquitto, {setting}", ratio, wanted))
    for setting in (QOS_1_STREAM, QOS_1_SINGLES):
        if setting + DURABLE in report.rates:
            durable, plain = (
                median(one.per_second for one in report.rates[name][MEMORY])
                for name in (setting + DURABLE, setting)
            )
            found.append(Aim(f"of our own, {setting}{DURABLE}", durable / plain, 0.5))
    for rate in sorted({one.rate for one in report.latencies}):
        ours, theirs = (p99(report, rate, name) for name in (NONE, MOSQUITTO))
        found.append(
            Aim(f"times Mosquitto's p99 at {rate:,} a second", ours / theirs, 1.5, at_least=False)
        )
    return found


def p99(report: BrokerReport, rate: int, broker: str) -> float:
    """Return the median of the rounds' p99 in milliseconds."""
    return median(
        one.p99_ms for one in report.latencies if (one.rate, one.broker) == (rate, broker)
    )


def latency_lines(report: BrokerReport) -> list[str]:
    """Return the table of latencies at fixed rates."""
    lines = [
        "",
        "| QoS 1, messages a second | broker | median, ms | p99, ms | p99, lowest to highest |",
        "|--:|---|--:|--:|--:|",
    ]
    for rate, name in dict.fromkeys((one.rate, one.broker) for one in report.latencies):
        runs = [one for one in report.latencies if (one.rate, one.broker) == (rate, name)]
        highest = sorted(one.p99_ms for one in runs)
        lines.append(
            f"| {rate:,} | {name} | {median(one.median_ms for one in runs):.2f} "
            f"| {median(highest):.2f} | {highest[0]:.2f} to {highest[-1]:.2f} |"
        )
    return lines
