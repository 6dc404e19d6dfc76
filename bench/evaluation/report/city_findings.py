"""What the page says of the city."""

from __future__ import annotations

from collections.abc import Sequence

from bench.evaluation.compared.systems import MEMORY, POSTGIS
from bench.evaluation.plan import Row
from bench.evaluation.report.sentences import (
    Compared,
    generator,
    is_held,
    listed,
    milliseconds,
    paragraph,
    ranking,
    span,
    span_of_ratios,
)

SOURCES = {
    "Berlin": "The data is that of OpenStreetMap: the roads of one district, and parking, stops, "
    "railways and districts of the whole city.",
    "Monaco": "The data of Berlin is not on this machine: the sample world, Monaco, stands in.",
}


def conditions(scene: Row, name: str) -> str:
    """Say what the city has, and what runs in it."""
    return paragraph(
        [
            f"{scene['entities']:,} entities. {SOURCES[name]}",
            f"{scene['vehicles']:,} clients are vehicles.",
            "Each has a neighborhood of one stage: everything within",
            f"{scene['metres']} m of a road segment ({scene['members']:.0f} entities, median).",
            "Segments are ranked by the traffic of their kind of road, and drawn by Zipf's law.",
            f"{scene['publishers']:,} publishers send about entities drawn evenly from the world;",
            f"a message goes to {scene['copies']:.1f} vehicles on average. Meanwhile",
            f"{scene['churn']:g} neighborhoods a second come and go, and each must be resolved.",
            "Clients of Mosquitto are given the members instead: it resolves nothing. amqtt is",
            "left out, because it compares each message with every filter.",
            f"Each run begins with cold caches and lasts {scene['seconds']:g} s; a point is the",
            f"median of {scene['window']:g} s.",
        ]
    )


def compared(rows: Sequence[Row], scene: Row, name: str, published: int) -> Compared:
    """Return what the table says of the city."""
    held = [row["rate"] for row in rows if row["system"] == MEMORY and is_held(row)]
    words = (
        f"{name}: messages a second held, {scene['publishers']} publishers, churn "
        f"{scene['churn']:g}"
    )
    if not held:
        return words, f"{published:,}", "none of those tried", None
    best = max(held)
    most = max(row["rate"] for row in rows)
    here = f"{best:,.0f}{' (the highest tried)' if best == most else ''}"
    return words, f"{published:,}", here, best / published


def city(rows: Sequence[Row]) -> str:
    """Return what the plot of the city shows."""
    lines = []
    for rate in sorted({row["rate"] for row in rows}):
        own = [row for row in rows if row["rate"] == rate]
        held = {row["system"]: row["median_ms"] for row in own if is_held(row)}
        words = f"the medians are {ranking(held)}" if held else "no system keeps up"
        lost = [row["system"] for row in own if not is_held(row)]
        behind = f"; {listed(lost)} {'falls' if len(lost) == 1 else 'fall'} behind" if lost else ""
        lines.append(f"At {rate:,.0f} messages a second {words}{behind if held else ''}.")
    for rate in dict.fromkeys(choice(row["rate"] for row in rows) for choice in (min, max)):
        adds = {
            row["system"]: row["adding"]["median_ms"]
            for row in rows
            if row["rate"] == rate and row["adding"]["median_ms"] is not None
        }
        if adds:
            lines.append(f"To add a neighborhood takes, at {rate:,.0f} a second: {ranking(adds)}.")
    return paragraph([*lines, generator(rows)])


def scope(rows: Sequence[Row]) -> str:
    """Return what the plot of scopes shows."""
    lines = []
    for stages in dict.fromkeys(row["stages"] for row in rows):
        at = {
            (row["system"], row["metres"], row["churn"]): row["median_ms"]
            for row in rows
            if row["stages"] == stages and row["median_ms"] is not None
        }
        places = [place[1:] for place in at if place[0] == MEMORY]
        common = [place for place in places if (POSTGIS, *place) in at]
        if not common:
            continue
        ours = [at[(MEMORY, *place)] for place in common]
        theirs = [at[(POSTGIS, *place)] for place in common]
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        worse = sum(ratio > 1 for ratio in ratios)
        lines.append(
            f"With {stages} a change takes {span(ours, ' ms')} in the broker and"
            f" {span(theirs, ' ms')} in PostGIS (medians of all scopes and rates):"
            f" {span_of_ratios(ratios)} as long; we are the slower ones at {worse} of"
            f" {len(ratios)} points."
        )
    behind = [
        f"{row['system']} ({row['metres']} m, {row['stages']}, {row['churn']:g} a second)"
        for row in rows
        if row["missing"]
    ]
    if behind:
        lines.append(f"Changes were refused or not answered in time: {listed(behind)}.")
    slowest = max(
        (row for row in rows if row["median_ms"] is not None),
        key=lambda row: row["median_ms"], default=None,
    )  # fmt: skip
    if slowest is not None:
        lines.append(
            f"The slowest point is {slowest['system']} with {slowest['metres']} m,"
            f" {slowest['stages']} and {slowest['churn']:g} changes a second:"
            f" {milliseconds(slowest['median_ms'])} ms."
        )
    return paragraph([*lines, generator(rows)])
