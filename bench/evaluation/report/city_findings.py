"""What the page says of the city."""

from __future__ import annotations

from collections.abc import Sequence

from bench.evaluation.compared.systems import MEMORY, POSTGIS
from bench.evaluation.report.sentences import Compared, is_held, paragraph, span
from bench.evaluation.throughput import Row


def conditions(found: Row, name: str) -> str:
    """Say what the city has, and what runs in it."""
    source = (
        "The data is that of OpenStreetMap: the roads of one district, and parking, stops, "
        "railways and districts of the whole city."
        if name == "Berlin"
        else "The data of Berlin is not on this machine: the sample world, Monaco, stands in."
    )
    return paragraph(
        [
            f"{found['entities']:,} entities. {source}",
            f"{found['vehicles']:,} clients are vehicles.",
            "Each has a neighborhood of one stage: everything within",
            f"{found['metres']} m of a road segment ({found['members']:.0f} entities, median).",
            "Segments are ranked by the traffic of their kind of road, and drawn by Zipf's law.",
            f"{found['publishers']:,} publishers send about entities drawn evenly from the world;",
            f"a message goes to {found['copies']:.1f} vehicles on average. Meanwhile",
            f"{found['churn']:g} neighborhoods a second come and go, and each must be resolved.",
            "Clients of Mosquitto are given the members instead: it resolves nothing.",
        ]
    )


def compared(found: Row, name: str, published: int) -> Compared:
    """Return what the table says of the city."""
    ours = [row for row in found["rows"] if row["system"] == MEMORY]
    held = [row["rate"] for row in ours if is_held(row)]
    best = max(held, default=0.0)
    words = (
        f"{name}: messages a second held, {found['publishers']} publishers, churn "
        f"{found['churn']:g}"
    )
    return words, f"{published:,}", f"{best:,.0f}", best / published


def city(found: Row) -> str:
    """Return what the plot of the city shows."""
    lines = []
    for rate in sorted({row["rate"] for row in found["rows"]}):
        rows = [row for row in found["rows"] if row["rate"] == rate]
        held = [row for row in rows if is_held(row)]
        words = ", ".join(f"{row['system']} {row['median_ms']:.2f} ms" for row in held)
        lines.append(f"At {rate:,.0f} messages a second the medians are: {words or 'none'}.")
        lost = [row["system"] for row in rows if not is_held(row)]
        if lost:
            lines.append(f"Not held there: {', '.join(lost)}.")
        limited = [row["system"] for row in rows if row["generator_is_limit"]]
        if limited:
            lines.append(f"The generator was at its limit with {', '.join(limited)}.")
    adds = [
        f"{row['system']} {row['adding']['median_ms']:.1f} ms"
        for row in found["rows"]
        if row["rate"] == min(one["rate"] for one in found["rows"]) and row["adding"]["median_ms"]
    ]
    lines.append(f"To add a neighborhood meanwhile took, at the lowest rate: {', '.join(adds)}.")
    return paragraph(lines)


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
        lines.append(
            f"With {stages} a change takes {span(ours, 1)} ms in the broker and"
            f" {span(theirs, 1)} ms in PostGIS (medians of all scopes and rates):"
            f" {span(ratios, 2)} times as long."
        )
    behind = [row for row in rows if row["missing"]]
    if behind:
        names = ", ".join(
            f"{row['system']} ({row['metres']} m, {row['stages']}, {row['churn']:g} a second)"
            for row in behind
        )
        lines.append(f"Some changes were refused or never answered: {names}.")
    return paragraph(lines)
