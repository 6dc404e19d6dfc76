"""The plots of the evaluation: readable in black and white, with names beside the lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from bench.evaluation.plan import Row
from bench.evaluation.report.knees import Sweeps
from bench.evaluation.report.line_labels import End, label_ends
from bench.evaluation.report.sentences import is_held
from bench.evaluation.report.styles import STYLES, Style

DPI: Final = 120
CEILING_MS: Final = 100.0
# Above every plot: nothing arrived.
NEVER_MS: Final = 100_000.0


def plot_all(results: Row, folder: Path) -> None:
    """Draw what was measured."""
    draws: dict[str, Callable[[Any, Path], None]] = {
        "sweeps": plot_throughput, "filtering": plot_filtering, "adding": plot_adding,
        "city": plot_city, "scope": plot_scope,
    }  # fmt: skip
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    for name, draw in draws.items():
        if results.get(name):
            draw(results[name], folder)


def plot_throughput(sweeps: Sequence[Row], folder: Path) -> None:
    """Median latency by publish rate; a large ring is the knee, a cross the generator's limit."""
    figure, axes = plt.subplots(figsize=(9, 5.4), layout="constrained")
    found = Sweeps(sweeps)
    axes.set_xscale("log")
    _plain_logarithm(axes)
    lines: dict[str, Line2D] = {}
    for name, rows in found.runs.items():
        style = STYLES[name]
        points = _by_rate(rows)
        label = f"{name} ({found.held_words(name)} held)"
        lines[label] = _line(axes, [x for x, _ in points], [y for _, y in points], style)
        _crosses(axes, [(row["rate"], row["median_ms"]) for row in rows if _is_limited(row)])
        knee = found.knee(name)
        nearest = min(points, key=lambda point: abs(point[0] - knee))
        axes.plot(*nearest, "o", markersize=14, markerfacecolor="none", color=style.color)
    axes.set_ylim(top=CEILING_MS)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("messages published a second")
    axes.set_ylabel("latency, median, ms")
    axes.xaxis.set_minor_formatter(NullFormatter())
    lines["knee"] = Line2D(
        [], [], marker="o", markersize=11, markerfacecolor="none", color="black", ls=""
    )
    lines["the generator may be the limit"] = Line2D(
        [], [], marker="x", markersize=9, color="black", ls=""
    )
    figure.legend(
        lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False,
        handlelength=3.5,
    )  # fmt: skip
    _save(figure, folder / "evaluation-throughput.png")


def _by_rate(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Return the rates, ascending, each with the median of its runs."""
    found: dict[float, list[float]] = {}
    for row in rows:
        found.setdefault(row["rate"], []).append(row["median_ms"] or NEVER_MS)
    return [(rate, median(each)) for rate, each in sorted(found.items())]


def plot_filtering(rows: Sequence[Row], folder: Path) -> None:
    """Latency against number and size of subscriptions, a panel for each rate."""
    rates = sorted({row["rate"] for row in rows})
    for axis, text in (("subscriptions", "subscriptions"), ("members", "members of each")):
        figure, panels = plt.subplots(
            1, len(rates), figsize=(9, 4.4), layout="constrained", squeeze=False
        )
        ends = []
        for axes, rate in zip(panels[0], rates, strict=True):
            part = [row for row in rows if row["axis"] == axis and row["rate"] == rate]
            held = [row for row in part if is_held(row)]
            ends.append((axes, _lines(axes, held, axis, ("median_ms", "p99_ms"))))
            axes.set_title(f"{rate:,.0f} messages a second")
            axes.set_xlabel(text)
            axes.set_ylabel("latency, ms: median, 99th percentile dotted")
        label_ends(ends)
        _save(figure, folder / f"evaluation-{axis}.png")


def plot_adding(rows: Sequence[Row], folder: Path) -> None:
    """Time to add a subscription, without and with resolution."""
    for is_resolved, name in ((False, "adding"), (True, "resolved")):
        own = [row for row in rows if row["is_resolved"] is is_resolved]
        if own:
            _plot_adding(own, folder / f"evaluation-{name}.png")


def _plot_adding(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel for each axis and churn."""
    churns = sorted({row["churn"] for row in rows})
    figure, panels = plt.subplots(
        2, len(churns), figsize=(9, 7.5), layout="constrained", squeeze=False
    )
    axes_names = (("subscriptions", "subscriptions"), ("members", "members of each"))
    ends = []
    for (axis, text), line in zip(axes_names, panels, strict=True):
        for axes, churn in zip(line, churns, strict=True):
            part = [
                row for row in rows
                if row["axis"] == axis and row["churn"] == churn and row["median_ms"] is not None
            ]  # fmt: skip
            ends.append((axes, _lines(axes, part, axis, ("median_ms", "p90_ms"))))
            axes.set_title(f"{churn:g} changes a second")
            axes.set_xlabel(text)
            axes.set_ylabel("to add, ms: median, 90th percentile dotted")
    label_ends(ends)
    _save(figure, path)


def plot_city(rows: Sequence[Row], folder: Path) -> None:
    """The median over time, a panel for each rate."""
    rates = sorted({row["rate"] for row in rows})
    figure, panels = plt.subplots(
        1, len(rates), figsize=(4.5 * max(2, len(rates)), 4.4), layout="constrained",
        squeeze=False, sharey=True,
    )  # fmt: skip
    panels_ends = []
    for axes, rate in zip(panels[0], rates, strict=True):
        ends: list[End] = []
        for row in rows:
            if row["rate"] != rate or not row["rolling"]:
                continue
            style = STYLES[row["system"]]
            times, heights = zip(*row["rolling"], strict=True)
            _line(axes, times, heights, style, marks=5)
            if _is_limited(row):
                _crosses(axes, row["rolling"][-1:])
            ends.append((times[-1], heights[-1], row["system"], style.color))
        _plain_logarithm(axes)
        axes.set_title(f"{rate:,.0f} messages a second")
        axes.set_xlabel("seconds since the start")
        panels_ends.append((axes, ends))
    label_ends(panels_ends)
    panels[0][0].set_ylabel("latency, rolling median, ms")
    _save(figure, folder / "evaluation-city.png")


def plot_scope(rows: Sequence[Row], folder: Path) -> None:
    """Time to add with resolution, a panel for each scope and number of stages."""
    kinds = list(dict.fromkeys((row["metres"], row["stages"]) for row in rows))
    figure, panels = plt.subplots(
        math.ceil(len(kinds) / 2), 2, figsize=(9, 7.5), layout="constrained", sharex=True,
        sharey=True, squeeze=False,
    )  # fmt: skip
    ends = []
    for axes, (metres, stages) in zip(panels.flat, kinds, strict=False):
        part = [
            row for row in rows
            if (row["metres"], row["stages"]) == (metres, stages) and row["median_ms"] is not None
        ]  # fmt: skip
        ends.append((axes, _lines(axes, part, "churn", ("median_ms", "p90_ms"))))
        members = part[0]["members"] if part else 0
        axes.set_title(f"{metres} m, {stages} (about {members:,} members)")
        axes.set_xlabel("changes a second")
        axes.set_ylabel("to add, ms: median, 90th percentile dotted")
    label_ends(ends)
    _save(figure, folder / "evaluation-scope.png")


def _is_limited(row: Row) -> bool:
    return bool(row["generator_is_limit"])


def _crosses(axes: Axes, places: Sequence[tuple[float, float | None]]) -> None:
    """Mark points at which the generator may be the limit."""
    for x, y in places:
        axes.plot(x, y or NEVER_MS, "x", color="black", markersize=9, zorder=5)


def _lines(axes: Axes, rows: Sequence[Row], place: str, heights: tuple[str, str]) -> list[End]:
    """Draw two figures of each system, the second dotted; return where the first ones end."""
    ends: list[End] = []
    for name in dict.fromkeys(row["system"] for row in rows):
        own = sorted((row for row in rows if row["system"] == name), key=lambda row: row[place])
        places = [row[place] for row in own]
        style = STYLES[name]
        _line(axes, places, [row[heights[0]] for row in own], style)
        axes.plot(
            places, [math.nan if row[heights[1]] is None else row[heights[1]] for row in own],
            ":", color=style.color, linewidth=0.9, marker=style.marker, markersize=3.5,
            markerfacecolor="white",
        )  # fmt: skip
        ends.append((places[-1], own[-1][heights[0]], name, style.color))
    _crosses(axes, [(row[place], row[heights[0]]) for row in rows if _is_limited(row)])
    axes.set_xscale("log")
    _plain_logarithm(axes)
    # A scale of less than a decade would have ticks that are hard to read. Panels may share theirs.
    panels = axes.get_shared_y_axes().get_siblings(axes)
    drawn = [panel.dataLim for panel in panels if panel.has_data()]
    low, high = min(each.ymin for each in drawn), max(each.ymax for each in drawn)
    middle, half = math.sqrt(low * high), max(math.sqrt(10), 1.2 * math.sqrt(high / low))
    axes.set_ylim(middle / half, middle * half)
    # Marks where something was measured, and nowhere else.
    axes.set_xticks(sorted({row[place] for row in rows}))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    return ends


def _plain_logarithm(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(which="major", alpha=0.25)


def _line(
    axes: Axes, places: Sequence[float], heights: Sequence[float], style: Style, marks: int = 1
) -> Line2D:
    """Draw a line with a marker at every n-th point."""
    (drawn,) = axes.plot(
        places, heights, style.line, color=style.color, marker=style.marker, markersize=5,
        linewidth=1.3, markevery=marks,
    )  # fmt: skip
    return drawn


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=DPI)
    plt.close(figure)
