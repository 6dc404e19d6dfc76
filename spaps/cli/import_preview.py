"""What ``spaps import --dry-run`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from spaps.cli.output import printable
from world.imports.dry_run import ADVICE, DryRun
from world.imports.extent import Extent
from world.sources.candidates import ProblemSummary

SHOWN_CATEGORIES: Final = 12


def preview_of(found: DryRun) -> RenderableType:
    """Return the tables of a dry run."""
    parts: list[RenderableType] = [
        Text.from_markup("[bold]dry run[/]: nothing is written"),
        _titled("sources", _sources(found)),
        _titled("world", _facts(found)),
        _titled("geometries", _counts(found.geometries)),
        _titled(f"categories ({len(found.categories):,})", _counts(found.categories)),
        _titled("ids", _counts(found.ids)),
        _titled("first entities", _first_rows(found)),
    ]
    if found.problems:
        parts.append(_titled("problems", _problems(found.problems)))
    parts += [Text.from_markup(f"\n{escape(printable(note))}") for note in found.notes]
    return Group(*parts)


def _titled(title: str, content: RenderableType) -> RenderableType:
    return Group(
        Text.from_markup(f"\n[bold]{escape(title)}[/]"),
        Padding(content, (0, 0, 0, 2), expand=False),
    )


def _plain_table(*columns: str, right: tuple[str, ...] = (), head: bool = True) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=head
    )
    for column in columns:
        is_right = column in right
        table.add_column(
            column, justify="right" if is_right else "left", no_wrap=is_right, overflow="fold"
        )
    return table


def _sources(found: DryRun) -> Table:
    table = _plain_table("source", "format", "rows", "CRS", "longitude, latitude", right=("rows",))
    for source in found.sources:
        table.add_row(
            Text(printable(source.path)),
            source.kind,
            f"{source.rows:,}",
            source.crs or "-",
            _place(source.extent),
        )
    return table


def _facts(found: DryRun) -> Table:
    table = _plain_table("what", "value", head=False)
    rows = sum(source.rows for source in found.sources)
    table.add_row("entities", f"{found.entities:,} of {rows:,} rows")
    table.add_row("CRS", Text(f"EPSG:{found.srid}, {found.crs}"))
    table.add_row("extent", _place(found.extent))
    return table


def _place(extent: Extent | None) -> str:
    if extent is None:
        return "-"
    return ", ".join(extent.ranges())


def _counts(counts: Mapping[str, int]) -> Table:
    table = _plain_table("what", "count", right=("count",), head=False)
    shown = list(counts.items())[:SHOWN_CATEGORIES]
    for name, count in shown:
        table.add_row(Text(printable(name)), f"{count:,}")
    if len(counts) > len(shown):
        table.add_row(Text(f"and {len(counts) - len(shown):,} more", style="dim"), "")
    if not counts:
        table.add_row(Text("none", style="dim"), "")
    return table


def _first_rows(found: DryRun) -> Table:
    table = _plain_table("key", "peid", "name", "categories", "geometry", right=("peid",))
    for row in found.first_rows:
        table.add_row(
            Text(printable(row.key)),
            str(row.peid),
            Text(printable(row.name or "")),
            Text(printable(", ".join(row.categories))),
            row.geometry,
        )
    return table


def _problems(problems: tuple[ProblemSummary, ...]) -> RenderableType:
    parts = []
    for each in problems:
        left_out = each.count - each.kept
        parts.append(
            Text.from_markup(
                f"[yellow]{each.kind}[/]: {each.count:,} "
                f"({each.kept:,} kept, {left_out:,} left out)"
            )
        )
        parts.append(Text(f"  such as {printable(str(each.example))}", style="dim"))
        parts.append(Text(f"  to do: {ADVICE[each.kind]}"))
    return Group(*parts)
