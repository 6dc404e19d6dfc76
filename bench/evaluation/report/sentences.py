"""Comparisons in words, and paragraphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from bench.evaluation.throughput import Row
from testing.knee import HELD_MS

# Differences below this share are within the noise of the machine.
SAME: Final = 0.1
WIDTH: Final = 120
# Name, published, here, ratio or None.
Compared: TypeAlias = tuple[str, str, str, float | None]


def times(ours: float, theirs: float) -> str:
    """Return in words how high one figure is beside another: "2.0 times"."""
    return f"{_number(ours / theirs if theirs else float('inf'))} times"


def is_held(row: Row) -> bool:
    """Return whether everything arrived and no queue grew, by the same rule as in the sweeps."""
    return row["is_complete"] and row["median_ms"] is not None and row["median_ms"] <= HELD_MS


def three_digits(value: float) -> str:
    """Return a rate with three digits that count: "244,000"."""
    return f"{float(f'{value:.3g}'):,.0f}"


def span(values: Iterable[float], digits: int) -> str:
    """Return the lowest and the highest value: "2.0 to 4.5"."""
    found = sorted(values)
    low, high = f"{found[0]:,.{digits}f}", f"{found[-1]:,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def slower(ours: float, theirs: float) -> str:
    """Return in words how one time compares with another."""
    ratio = ours / theirs if theirs else float("inf")
    if abs(ratio - 1) <= SAME:
        return "as long as"
    return f"{_number(ratio)} times as long as"


def _number(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio > 1 else f"{ratio:.2f}"


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
