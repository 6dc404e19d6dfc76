"""Comparisons in words, and paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from bench.evaluation.plan import Row
from testing.knee import HELD_GROWTH, HELD_MS

# Differences below this share are within the noise of the machine.
SAME: Final = 0.1
WIDTH: Final = 120
NOT_MEASURED: Final = "Not measured in this run."
# Name, published, here, ratio or None.
Compared: TypeAlias = tuple[str, str, str, float | None]


def is_held(row: Row) -> bool:
    """Return whether everything arrived and no queue grew, by the same rule as in the sweeps."""
    return (
        row["is_complete"]
        and row["median_ms"] is not None
        and row["median_ms"] <= HELD_MS
        and row["growth"] <= HELD_GROWTH
    )


def three_digits(value: float) -> str:
    """Return a rate with three digits that count: "244,000"."""
    return f"{float(f'{value:.3g}'):,.0f}"


def times(ratio: float) -> str:
    """Return a ratio in words: "2.0 times", "0.012 times"."""
    return f"{ratio_words(ratio)} times"


def span(values: Iterable[float], unit: str = "") -> str:
    """Return the lowest and the highest value: "2.0 to 4.5 ms"."""
    found = sorted(values)
    low, high = milliseconds(found[0]), milliseconds(found[-1])
    return (low if low == high else f"{low} to {high}") + unit


def span_of_ratios(values: Iterable[float]) -> str:
    """Return the lowest and the highest ratio: "0.77 to 1.1 times"."""
    found = sorted(values)
    low, high = ratio_words(found[0]), ratio_words(found[-1])
    return f"{low} times" if low == high else f"{low} to {high} times"


def milliseconds(value: float) -> str:
    """Return a time with two digits that count, or without a fraction from 10 on."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def slower(ours: float, theirs: float) -> str:
    """Return in words how one time compares with another."""
    if theirs <= 0 or abs(ours / theirs - 1) <= SAME:
        return "as long as"
    return f"{times(ours / theirs)} as long as"


def ranking(found: dict[str, float]) -> str:
    """Return systems and their times, the quickest first: "memory 0.14, Mosquitto 0.19 ms"."""
    ordered = sorted(found.items(), key=lambda one: one[1])
    return ", ".join(f"{name} {milliseconds(value)}" for name, value in ordered) + " ms"


def listed(words: Sequence[str]) -> str:
    """Return words as a list: "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def generator(rows: Sequence[Row]) -> str:
    """Say how busy the load generator was, and where it was the limit."""
    shares = sorted(row["generator_share"] for row in rows)
    limited = sum(row["generator_is_limit"] for row in rows)
    where = (
        f"it may be the limit at {limited} of {len(rows)} points, which have a cross"
        if limited
        else "it is nowhere the limit"
    )
    return f"The generator uses {shares[0]:.0%} to {shares[-1]:.0%} of its core; {where}."


def paragraph(lines: Iterable[str]) -> str:
    """Join sentences to lines of up to ``WIDTH`` characters."""
    words = " ".join(lines).split()
    found: list[str] = []
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > WIDTH:
            found.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*found, line])


def ratio_words(ratio: float) -> str:
    """Return a ratio with about two digits that count."""
    if ratio >= 10:
        return f"{ratio:,.0f}"
    if ratio >= 1:
        return f"{ratio:.1f}"
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"
