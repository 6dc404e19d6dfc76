"""What the page says of filtering time, computed from the figures, also where we are slower."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.evaluation.compared.systems import AMQTT, DATABASE, MEMORY
from bench.evaluation.plan import Row
from bench.evaluation.report.sentences import (
    Compared,
    generator,
    is_held,
    listed,
    paragraph,
    ranking,
    span,
    times,
)

AXES = (("subscriptions", "members", "subscriptions"), ("members", "subscriptions", "entities"))


def points(rows: Sequence[Row]) -> str:
    """Say which sizes were measured."""
    found = []
    for axis, other, words in (
        ("subscriptions", "members", "subscriptions of {} entities"),
        ("members", "subscriptions", "entities in each of {} subscriptions"),
    ):
        own = [row for row in rows if row["axis"] == axis]
        if not own:
            continue
        sizes = sorted({row[axis] for row in own})
        fixed = ", ".join(f"{size:,}" for size in sorted({row[other] for row in own}))
        found.append(f"{sizes[0]:,} to {sizes[-1]:,} {words.format(fixed)}")
    return f"{' and '.join(found)}."


def filtering(rows: Sequence[Row], axis: str) -> str:
    """Return what the plot of one axis shows."""
    own = [row for row in rows if row["axis"] == axis and row["system"] != AMQTT]
    if not own:
        return ""
    low, high = (choice(row["rate"] for row in own) for choice in (min, max))
    lines = []
    ours = by_place(own, axis, MEMORY, low)
    if len(ours) > 1:
        first, last = min(ours), max(ours)
        what = "subscriptions" if axis == "subscriptions" else "entities in each"
        lines.append(
            f"From {first:,} to {last:,} {what} the median of the memory mode goes from"
            f" {ours[first]:.2f} to {ours[last]:.2f} ms at {low:,.0f} messages a second."
        )
    # The largest point that most systems have.
    if ours:
        at = {
            name: by_place(own, axis, name, low)
            for name in dict.fromkeys(row["system"] for row in own)
        }
        common = set.intersection(*(set(each) for each in at.values() if each))
        if common:
            place = max(common)
            here = {name: each[place] for name, each in at.items() if each}
            lines.append(f"At {place:,} the medians are, the quickest first: {ranking(here)}.")
    if any(not is_held(row) for row in own if row["rate"] == low):
        lines.append(_held_at(own, low))
    if high > low:
        lines.append(_held_at(own, high))
    lines.append(generator(own))
    return paragraph(lines)


def _held_at(rows: Sequence[Row], rate: float) -> str:
    words = []
    for name in dict.fromkeys(row["system"] for row in rows if row["rate"] == rate):
        own = [row for row in rows if row["system"] == name and row["rate"] == rate]
        held = [row["median_ms"] for row in own if is_held(row)]
        medians = f" with medians of {span(held, ' ms')}" if held else ""
        words.append(f"{name} holds {len(held)} of {len(own)} points{medians}")
    return f"At {rate:,.0f} a second {listed(words)}."


def by_place(rows: Sequence[Row], axis: str, name: str, rate: float) -> dict[int, float]:
    """Return the medians of a system at a rate, where it holds that rate."""
    return {
        row[axis]: row["median_ms"]
        for row in rows
        if row["axis"] == axis and row["system"] == name and row["rate"] == rate and is_held(row)
    }


def lightest(rows: Sequence[Row]) -> str:
    """Say what became of amqtt."""
    own = [row for row in rows if row["system"] == AMQTT]
    if not own:
        return ""
    row = max(own, key=lambda one: one["subscriptions"] * one["members"])
    filters = row["subscriptions"] * row["members"]
    result = "held" if is_held(row) else "did not hold"
    return (
        f"amqtt compares each message with every filter: it {result} {row['rate']:,.0f} messages a"
        f" second with {filters:,} filters, and is left out where there are more."
    )


def difference_ms(rows: Sequence[Row]) -> float | None:
    """Return how much longer a message takes in-database than in memory, at the lowest rate."""
    low = min(row["rate"] for row in rows)
    found = []
    for axis, _, _ in AXES:
        stored, ours = (by_place(rows, axis, name, low) for name in (DATABASE, MEMORY))
        found += [stored[place] - ours[place] for place in stored.keys() & ours.keys()]
    return median(found) if found else None


def compared(rows: Sequence[Row], rate: int, in_database_us: int) -> list[Compared]:
    """Return what the table says of filtering time."""
    own = [row for row in rows if row["rate"] == rate and row["system"] == MEMORY]
    held = [row["subscriptions"] for row in own if is_held(row)]
    here = f"held up to {max(held):,} subscriptions" if held else "not held, or not measured"
    found: list[Compared] = [
        ("constant rate for filtering times, messages a second", f"{rate:,}", here,
         1.0 if held else None)
    ]  # fmt: skip
    low = min(row["rate"] for row in rows)
    for (axis, _, words), published in zip(AXES, ("slow growth", "constant"), strict=True):
        ours = by_place(rows, axis, MEMORY, low)
        if len(ours) > 1:
            first, last = min(ours), max(ours)
            growth = times(ours[last] / ours[first])
            found.append(
                (f"main memory, latency with {last:,} {words} beside that with {first:,}",
                 published, growth, None)
            )  # fmt: skip
    difference = difference_ms(rows)
    if difference is not None:
        found.append(
            ("in-database above main memory, µs", f"about {in_database_us}",
             f"{1e3 * difference:,.0f}", 1e3 * difference / in_database_us)
        )  # fmt: skip
    return found
