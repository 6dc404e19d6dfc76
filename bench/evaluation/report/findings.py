"""Sentences and rows of the page, computed from the figures, also where we are the slower ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from bench.evaluation.compared.systems import (
    BATCHED,
    DATABASE,
    MEMORY,
    MOSQUITTO,
    NONE,
    REDIS,
    REDIS_COLD,
)
from bench.evaluation.report.sentences import (
    Compared,
    is_held,
    paragraph,
    slower,
    span,
    three_digits,
    times,
)
from bench.evaluation.throughput import Row

# --- throughput


def throughput(found: Row) -> str:
    """Return what the plot of throughput shows."""
    knee, held = found["knee"], found["held"]
    plateau = {
        name: median(one["plateau_ms"] for one in each) for name, each in found["knees"].items()
    }
    at, up_to = rates(found, "knee", "is_least"), rates(found, "held", "held_is_least")
    at_rest, peer = plateau[MEMORY], plateau[MOSQUITTO]
    first, second = (times(one[MEMORY], one[MOSQUITTO]) for one in (knee, held))
    lines = [
        f"In memory mode the knee is {at[MEMORY]} messages a second, and {up_to[MEMORY]} are held.",
        f"With Mosquitto they are {at[MOSQUITTO]} and {up_to[MOSQUITTO]}:",
        f"ours are {first} and {second} as high.",
        f"Without its filter our broker holds {up_to[NONE]}.",
        f"Redis holds {up_to[REDIS]} with a warm cache, and {up_to[REDIS_COLD]} with a cold one,",
        "when each message needs an answer of Redis.",
        f"In-database it is {up_to[DATABASE]} with a query for each publish, and {up_to[BATCHED]}",
        "when the publishes of one read share a query.",
        f"At low rates a message takes {at_rest:.2f} ms in memory mode (median),",
        f"{slower(at_rest, peer)} through Mosquitto ({peer:.2f} ms).",
    ]
    return paragraph(lines)


def rates(found: Row, figure: str, least: str) -> dict[str, str]:
    """Return a rate of each system in words."""
    return {
        name: f"{'at least ' if found[least][name] else ''}{three_digits(rate)}"
        for name, rate in found[figure].items()
    }


def knee_table(found: Row) -> list[str]:
    """Return the table of knees, with both cores at the highest rate that was held."""
    columns = (
        "system", "plateau, ms", "knee, messages a second", "held, messages a second",
        "there: µs a message", "core of the system", "core of the generator", "what ends it",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---|--:|--:|--:|--:|--:|--:|---|"]
    for name, rows in found["runs"].items():
        held = found["held"][name]
        nearest = min(rows, key=lambda row: abs(row["rate"] - held))
        above = [row for row in rows if row["rate"] > held]
        end = min(above, key=lambda row: row["rate"], default=None)
        why = "the last rate" if end is None else "the system"
        if end is not None and end["generator_is_limit"]:
            why = "the generator"
        plateau = median(one["plateau_ms"] for one in found["knees"][name])
        knee = three_digits(found["knee"][name])
        lines.append(
            f"| {name} | {plateau:.2f} | {knee} | {three_digits(held)} "
            f"| {nearest['microseconds']:.1f} | {nearest['system_share']:.0%} "
            f"| {nearest['generator_share']:.0%} | {why} |"
        )
    return lines


# --- filtering time


def points(rows: Sequence[Row]) -> str:
    """Say which sizes were measured."""
    found = []
    for axis, other, words in (
        ("subscriptions", "members", "subscriptions of {} entities"),
        ("members", "subscriptions", "entities in each of {} subscriptions"),
    ):
        own = [row for row in rows if row["axis"] == axis]
        sizes = sorted({row[axis] for row in own})
        fixed = ", ".join(f"{size:,}" for size in sorted({row[other] for row in own}))
        found.append(f"{sizes[0]:,} to {sizes[-1]:,} {words.format(fixed)}")
    return f"{' and '.join(found)}."


def filtering(rows: Sequence[Row]) -> str:
    """Return what the plots of filtering time show."""
    low = min(row["rate"] for row in rows)
    lines = []
    for axis, words in (("subscriptions", "subscriptions"), ("members", "entities in each")):
        own = _by_place(rows, axis, MEMORY, low)
        if len(own) < 2:
            continue
        (first, start), *_, (last, end) = own
        lines.append(
            f"From {first:,} to {last:,} {words} the median of the memory mode goes from"
            f" {start:.2f} to {end:.2f} ms at {low:,.0f} messages a second."
        )
    high = max(row["rate"] for row in rows)
    for name in (MEMORY, REDIS, MOSQUITTO):
        at_high = [row for row in rows if row["system"] == name and row["rate"] == high]
        held = [row["median_ms"] for row in at_high if is_held(row)]
        if held and high > low:
            lines.append(
                f"At {high:,.0f} a second {name} holds {len(held)} of"
                f" {len(at_high)} points, with medians of {span(held, 2)} ms."
            )
    both = difference_ms(rows)
    if both is not None:
        more = "more" if both > 0 else "less"
        lines.append(
            f"In-database it takes {1e3 * abs(both):,.0f} µs {more} than in memory, the median of"
            " all points."
        )
    peer, ours = _medians(rows, MOSQUITTO, low), _medians(rows, MEMORY, low)
    common = sorted(peer.keys() & ours.keys())
    if common:
        ratio = median(ours[place] / peer[place] for place in common)
        lines.append(
            f"A message takes {slower(ratio, 1.0)} one through Mosquitto, the median of all points."
        )
    return paragraph(lines)


def _by_place(rows: Iterable[Row], axis: str, name: str, rate: float) -> list[tuple[int, float]]:
    return sorted(
        (row[axis], row["median_ms"])
        for row in rows
        if row["axis"] == axis and row["system"] == name and row["rate"] == rate
        and row["median_ms"] is not None
    )  # fmt: skip


def _medians(rows: Iterable[Row], name: str, rate: float) -> dict[tuple[int, int], float]:
    return {
        (row["subscriptions"], row["members"]): row["median_ms"]
        for row in rows
        if row["system"] == name and row["rate"] == rate and row["median_ms"] is not None
    }


def difference_ms(rows: Sequence[Row]) -> float | None:
    """Return how much longer a message takes in-database than in memory, at the lowest rate."""
    low = min(row["rate"] for row in rows)
    stored, ours = _medians(rows, DATABASE, low), _medians(rows, MEMORY, low)
    common = stored.keys() & ours.keys()
    return median(stored[place] - ours[place] for place in common) if common else None


def fixed_rows(rows: Sequence[Row], published_rate: int, published_us: int) -> list[Compared]:
    """Return what the table says of the constant rate and of the database."""
    high = [row for row in rows if row["rate"] == published_rate and row["system"] == MEMORY]
    held = [row["subscriptions"] for row in high if is_held(row)]
    here = f"held up to {max(held):,} subscriptions" if held else "not held, or not measured"
    found: list[Compared] = [
        ("constant rate for filtering times, messages a second", f"{published_rate:,}", here, None)
    ]
    difference = difference_ms(rows)
    if difference is not None:
        found.append(
            ("in-database above main memory, µs", f"about {published_us}",
             f"{1e3 * difference:,.0f}", 1e3 * difference / published_us)
        )  # fmt: skip
    return found


# --- adding


def adding(rows: Sequence[Row]) -> str:
    """Return what the plot of adding shows."""
    high = max(row["churn"] for row in rows)
    found = {
        name: {
            (row["subscriptions"], row["members"]): row["median_ms"]
            for row in rows
            if row["system"] == name and row["churn"] == high and row["median_ms"] is not None
        }
        for name in (MEMORY, REDIS, DATABASE, MOSQUITTO)
    }
    ours = found[MEMORY]
    if not ours:
        return ""
    least, most = min(ours.values()), max(ours.values())
    words = f"At {high:g} changes a second the memory mode needs {least:.2f} to {most:.2f} ms"
    lines = [f"{words} (medians)."]
    for name in (REDIS, DATABASE, MOSQUITTO):
        common = found[name].keys() & ours.keys()
        if not common:
            continue
        ratios = [found[name][place] / ours[place] for place in common]
        lines.append(
            f"{name.capitalize()} takes {min(ratios):.1f} to {max(ratios):.1f} times as long,"
            f" {_largest(name, found)}."
        )
    return paragraph(lines)


def _largest(name: str, found: dict[str, dict[tuple[int, int], float]]) -> str:
    """Say what the largest neighborhood takes that both have."""
    place = max(found[name].keys() & found[MEMORY].keys(), key=lambda one: (one[1], one[0]))
    return f"{found[name][place]:.1f} ms for one of {place[1]:,} entities"
