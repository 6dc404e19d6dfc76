"""A resolved neighborhood as tables for people: peids, names and categories by stage."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from spaps.cli.printable_text import printable
from spatial_udfs.entity_table import EntityTable, Int64s
from spatial_udfs.exact.exact_resolver import Resolution


def stage_tables(
    table: EntityTable, resolution: Resolution, words: Sequence[str], limit: int
) -> RenderableType:
    """One table for each stage, of at most ``limit`` rows (0: all)."""
    return Group(
        *(
            _stage_table(table, resolution, number, words[number - 1], limit)
            for number in range(1, len(resolution.stages) + 1)
        )
    )


def _stage_table(
    table: EntityTable, resolution: Resolution, number: int, words: str, limit: int
) -> RenderableType:
    members = resolution.stages[number - 1]
    hidden = "" if resolution.visible[number - 1] else " [dim](not in the result)[/]"
    count = "1 member" if len(members) == 1 else f"{len(members):,} members"
    title = Text.from_markup(
        f"\n[bold]stage {number}[/]: {escape(printable(words))}, {count}{hidden}"
    )
    if not len(members):
        return title
    return Group(title, _rows(table, members, limit))


def _rows(table: EntityTable, members: Int64s, limit: int) -> Table:
    shown = members[:limit] if limit else members
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    rows.add_column("peid", justify="right", no_wrap=True)
    rows.add_column("name", overflow="fold")
    rows.add_column("categories", style="dim", overflow="fold")
    for position in table.positions_of(shown)[0].tolist():
        name = printable(table.names[position] or "")
        categories = ", ".join(table.categories_at(position))
        rows.add_row(str(table.peids[position]), Text(name), Text(printable(categories)))
    if len(shown) < len(members):
        rows.add_row("…", Text(f"and {len(members) - len(shown):,} more", style="dim"), "")
    return rows
