"""A broker's figures as a table: what it holds, what passes through it, what it drops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.box import HORIZONTALS
from rich.markup import escape
from rich.table import Table

from spaps.cli.monitor.metrics_text import Figures, labelled
from spaps.cli.printable_text import printable


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of one moment."""

    seconds: float
    figures: Figures


def top_table(now: Reading, before: Reading | None) -> Table:
    """Each figure, and for what grows its rate since the reading before."""
    table = Table(box=HORIZONTALS, pad_edge=False, border_style="dim")
    table.add_column("broker")
    table.add_column("now", justify="right")
    table.add_column("a second", justify="right")
    for name, value, rate in _rows(now, before):
        table.add_row(escape(name), value, rate)
    return table


def _rows(now: Reading, before: Reading | None) -> Iterator[tuple[str, str, str]]:
    figures = now.figures
    for name, key in (
        ("connections", "spaps_connections"),
        ("sessions", "spaps_sessions"),
        ("subscriptions", "spaps_subscriptions"),
        ("  with a neighborhood", "spaps_neighborhoods"),
        ("membership pairs", "spaps_membership_pairs"),
        ("retained messages", "spaps_retained_messages"),
        ("queued messages", "spaps_queued_messages"),
        ("in flight", "spaps_in_flight_messages"),
        ("world version", "spaps_world_version"),
        ("generation", "spaps_generation"),
    ):
        yield name, _count(figures.get(key)), ""
    for name, key in (
        ("messages in", "spaps_publishes_received_total"),
        ("  about an entity", "spaps_spatial_publishes_total"),
        ("matches", "spaps_matches_total"),
        ("messages out", "spaps_publishes_sent_total"),
        ("bytes in", "spaps_bytes_received_total"),
        ("bytes out", "spaps_bytes_sent_total"),
    ):
        yield name, _count(figures.get(key)), _rate(now, before, key)
    yield "filter time, mean", _filter_time(now, before), ""
    for cause, number in sorted(labelled(figures, "spaps_drops_total").items()):
        if number:
            key = f'spaps_drops_total{{cause="{cause}"}}'
            yield (
                f"dropped: {printable(cause.replace('_', ' '))}",
                _count(number),
                _rate(now, before, key),
            )


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _growth(now: Reading, before: Reading, key: str) -> float | None:
    """None when it is not there, or when the broker has started anew in between."""
    if key not in now.figures or key not in before.figures:
        return None
    growth = now.figures[key] - before.figures[key]
    return growth if growth >= 0 else None


def _rate(now: Reading, before: Reading | None, key: str) -> str:
    growth = None if before is None else _growth(now, before, key)
    if before is None or growth is None or now.seconds <= before.seconds:
        return "-"
    return f"{growth / (now.seconds - before.seconds):,.0f}"


def _filter_time(now: Reading, before: Reading | None) -> str:
    """Of the last interval; of all time when there is no reading before."""
    if before is None:
        total = now.figures.get("spaps_filter_seconds_sum", 0.0)
        count = now.figures.get("spaps_filter_seconds_count", 0.0)
    else:
        total = _growth(now, before, "spaps_filter_seconds_sum") or 0.0
        count = _growth(now, before, "spaps_filter_seconds_count") or 0.0
    return f"{1e6 * total / count:.1f} µs" if count else "-"
