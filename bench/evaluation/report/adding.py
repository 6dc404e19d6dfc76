"""What the page says of the time to add a subscription."""

from __future__ import annotations

from collections.abc import Sequence

from bench.evaluation.compared.systems import MEMORY
from bench.evaluation.plan import Row
from bench.evaluation.report.sentences import (
    generator,
    listed,
    milliseconds,
    paragraph,
    span,
    span_of_ratios,
)

Place = tuple[str, int, int]


def adding(rows: Sequence[Row], *, is_resolved: bool) -> str:
    """Return what one plot of adding shows."""
    own = [row for row in rows if row["is_resolved"] is is_resolved]
    if not own:
        return ""
    churn = max(row["churn"] for row in own)
    found = {
        name: _medians(own, name, churn) for name in dict.fromkeys(row["system"] for row in own)
    }
    lines = []
    ours = found.pop(MEMORY, {})
    if ours:
        lines.append(
            f"At {churn:g} changes a second the memory mode needs {span(ours.values(), ' ms')}"
            " (medians of all points)."
        )
    words = []
    for name, theirs in found.items():
        common = theirs.keys() & ours.keys()
        if common:
            ratios = span_of_ratios(theirs[place] / ours[place] for place in common)
            place = max(common, key=lambda one: (one[2], one[1]))
            words.append(
                f"{name} takes {ratios} as long ({milliseconds(theirs[place])} ms for"
                f" {place[2]:,} entities, memory {milliseconds(ours[place])} ms)"
            )
    if words:
        text = listed(words)
        lines.append(f"{text}.")
    if is_resolved:
        lines += _cost_of_resolution(rows, churn, ours)
    lost = [
        f"{row['system']} ({row['subscriptions']:,} of {row['members']:,},"
        f" {row['churn']:g} a second)"
        for row in own
        if row["missing"]
    ]
    if lost:
        lines.append(f"Changes were refused or not answered in time: {listed(lost)}.")
    return paragraph([*lines, generator(own)])


def _cost_of_resolution(rows: Sequence[Row], churn: float, ours: dict[Place, float]) -> list[str]:
    prepared = _medians([row for row in rows if not row["is_resolved"]], MEMORY, churn)
    common = prepared.keys() & ours.keys()
    if not common:
        return []
    ratios = span_of_ratios(ours[place] / prepared[place] for place in common)
    return [f"In memory mode that is {ratios} the time without resolution."]


def _medians(rows: Sequence[Row], name: str, churn: float) -> dict[Place, float]:
    return {
        (row["axis"], row["subscriptions"], row["members"]): row["median_ms"]
        for row in rows
        if row["system"] == name and row["churn"] == churn and row["median_ms"] is not None
    }


def resolved_sizes(rows: Sequence[Row]) -> str:
    """Say how large the neighborhoods that are resolved really are."""
    found = {row["members"]: row["resolved_members"] for row in rows if row.get("resolved_members")}
    words = [f"{found[size]:,} for {size:,}" for size in sorted(found)]
    return f"The neighborhoods hold, by the median: {listed(words)}." if words else ""
