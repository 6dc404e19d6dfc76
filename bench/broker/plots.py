"""The plots of the broker benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from bench.broker.rate import Rate

if TYPE_CHECKING:
    from bench.broker.aims import Latency

MOSQUITTO, AMQTT = "Mosquitto", "amqtt"
MEMORY, REDIS, NONE = "spaps memory", "spaps redis", "spaps none"
COLORS: Final = {
    MEMORY: "#0072b2", REDIS: "#56b4e9", NONE: "#999999", MOSQUITTO: "#d55e00", AMQTT: "#cc79a7",
}  # fmt: skip


def plot_rates(rates: dict[str, dict[str, list[Rate]]], path: Path) -> None:
    """Draw the publishes a second by setting and broker."""
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    names = [name for name in COLORS if any(name in found for found in rates.values())]
    height = 0.8 / len(names)
    for number, name in enumerate(names):
        places = [
            (row + number * height, median(rate.per_second for rate in found[name]))
            for row, found in enumerate(rates.values())
            if name in found
        ]
        axes.barh(
            [place for place, _ in places], [rate for _, rate in places], height,
            color=COLORS[name], label=name,
        )  # fmt: skip
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(rates))], list(rates))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(left=1_000)
    axes.set_xlabel("publishes a second, one core (median of the rounds)")
    axes.grid(axis="x", which="both", alpha=0.25)
    figure.legend(loc="outside upper center", ncols=len(names))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_latencies(latencies: Sequence[Latency], path: Path) -> None:
    """Draw median and p99 by rate and broker, with all rounds as points."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    names = list(dict.fromkeys(one.broker for one in latencies))
    rates = sorted({one.rate for one in latencies})
    for name in names:
        own = [
            [one for one in latencies if (one.rate, one.broker) == (rate, name)] for rate in rates
        ]
        for label, style, value in (
            ("median", "o-", [median(one.median_ms for one in runs) for runs in own]),
            ("p99", "s--", [median(one.p99_ms for one in runs) for runs in own]),
        ):
            axes.plot(rates, value, style, color=COLORS[name], label=f"{name}, {label}")
        every = [one for runs in own for one in runs]
        axes.plot(
            [one.rate for one in every], [one.p99_ms for one in every], ".",
            color=COLORS[name], alpha=0.5,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        axis("{x:g}")
    axes.set_xticks(rates, [f"{rate:,}" for rate in rates])
    axes.set_xlabel("messages a second at QoS 1")
    axes.set_ylabel("from due to delivered, ms")
    axes.grid(which="both", alpha=0.25)
    figure.legend(loc="outside upper center", ncols=len(names) * 2, fontsize="small")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_filter(figures: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw the filter's time and that of adding a subscription, along both axes."""
    figure = plt.figure(figsize=(10, 7.5), layout="constrained")
    rows = figure.subfigures(2, 1, squeeze=False)[:, 0]
    plots = [row.subplots(1, 2) for row in rows]
    for column, axis in enumerate(("subscriptions", "members")):
        points = figures[axis]
        places = [one[axis] for one in points]
        times, adds = plots[0][column], plots[1][column]
        for name, prefix in ((MEMORY, ""), (REDIS, "redis_")):
            medians = [one[f"{prefix}median_us"] for one in points]
            times.plot(places, medians, "o-", color=COLORS[name], label=f"{name}, median")
            highest = [one[f"{prefix}p99_us"] for one in points]
            times.plot(places, highest, "o:", color=COLORS[name], label=f"{name}, p99")
        first = [one["first_us"] for one in points]
        times.plot(places, first, "s--", color="#009e73", label=f"{MEMORY}, first look")
        times.set_ylim(bottom=0)
        times.set_ylabel("filter, µs")
        for churn, style in (("0", "o-"), ("10", "s--"), ("100", "^:")):
            label = f"{churn} changes a second"
            adds.plot(places, [one["add_ms"][churn] for one in points], style, label=label)
        adds.set_yscale("log")
        adds.yaxis.set_major_formatter("{x:g}")
        adds.set_ylim(0.1, 200)
        adds.set_ylabel("add a subscription, ms")
        for plot in (times, adds):
            plot.set_xscale("log")
            plot.set_xlabel("subscriptions" if axis == "subscriptions" else "members of each")
            plot.grid(which="both", alpha=0.25)
    # One for both plots of a row, above them, where no line can run.
    for row, (plot, _) in zip(rows, plots, strict=True):
        row.legend(*plot.get_legend_handles_labels(), loc="outside upper center", ncols=5,
                   fontsize="small")  # fmt: skip
    figure.savefig(path, dpi=130)
    plt.close(figure)
