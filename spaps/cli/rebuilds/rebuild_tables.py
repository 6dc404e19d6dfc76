"""What rebuilds did and would do, for people: tables and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from rich.box import HORIZONTALS
from rich.table import Table

from rebuild.preview import ListedVersion, RebuildPreview
from redis_link.generation.generation_store import SubscriptionChanges

SHOWN: Final = 10


def versions_table(versions: Sequence[ListedVersion]) -> Table:
    """One row for each world version, newest first."""
    table = Table(box=HORIZONTALS, pad_edge=False, border_style="dim")
    for title in ("version", "imported", "entities", "changes", "generation", "current"):
        right = title in ("version", "entities", "generation")
        table.add_column(title, justify="right" if right else "left", no_wrap=title != "changes")
    for listed in reversed(versions):
        table.add_row(
            str(listed.version),
            f"{listed.created_at:%Y-%m-%d %H:%M}",
            f"{listed.entities:,}",
            _changes(listed.changes),
            "-" if listed.generation is None else str(listed.generation),
            "yes" if listed.in_force else "",
            style="bold" if listed.in_force else None,
        )
    return table


def preview_lines(shown: RebuildPreview) -> Iterator[str]:
    """The summary of a dry run."""
    if shown.against is None or shown.changes is None:
        yield f"the first version of the world: {shown.entities:,} entities"
        return
    yield (
        f"{shown.entities:,} entities, against version {shown.against}: "
        f"{_changes(shown.changes.counts()) or 'no entity is different'}"
    )
    if len(shown.vanishing):
        listed = ", ".join(map(str, shown.vanishing[:SHOWN].tolist()))
        more = len(shown.vanishing) - SHOWN
        yield f"{len(shown.vanishing):,} references vanish: {listed}" + (
            f" and {more:,} more" if more > 0 else ""
        )
    changes = shown.by_subscription
    if changes is None:
        yield f"{shown.subscriptions:,} subscriptions; none was resolved by a rebuild before"
        return
    gaining, losing = np.count_nonzero(changes.gained), np.count_nonzero(changes.lost)
    lacking = np.count_nonzero(changes.lacks_references)
    yield (
        f"of {shown.subscriptions:,} subscriptions {gaining:,} gain {changes.gained.sum():,} "
        f"members, {losing:,} lose {changes.lost.sum():,}; {lacking:,} have no reference then"
    )


def preview_table(changes: SubscriptionChanges) -> Table:
    """The subscriptions that change most."""
    table = Table(box=HORIZONTALS, pad_edge=False, border_style="dim")
    for title in ("subscription", "gains", "loses", ""):
        table.add_column(title, justify="right" if title else "left")
    order = np.argsort(-(changes.gained + changes.lost), kind="stable")
    for place in order[:SHOWN].tolist():
        table.add_row(
            str(changes.sub_ids[place]),
            f"+{changes.gained[place]:,}",
            f"−{changes.lost[place]:,}",  # noqa: RUF001  the minus of people
            "no reference left" if changes.lacks_references[place] else "",
        )
    if len(order) > SHOWN:
        table.caption = f"and {len(order) - SHOWN:,} more"
    return table


def _changes(counts: dict[str, int] | None) -> str:
    if counts is None:
        return "-"
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
