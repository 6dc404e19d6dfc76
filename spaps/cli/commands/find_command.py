"""``spaps find`` lists entities by text, category and place; ``spaps categories`` the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, VersionOption, WorldOption

if TYPE_CHECKING:  # at run time only when the command runs
    from world.search.categories import CategoryCount
    from world.search.entity_search import SearchResult

# So far away no entity is meant by a place in a city.
FAR_METRES: Final = 100_000.0
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; peids are strings.")]


def find(  # noqa: PLR0913  one for each option of the contract
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="A name or a part of it, a key, a peid, or a level of a category.",
        ),
    ] = None,
    *,
    world: WorldOption = None,
    version: VersionOption = None,
    near: Annotated[
        str | None,
        typer.Option(
            metavar="LON,LAT", help="Entities around this place, nearest first, with distances."
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(metavar="METRES", help="With --near: only up to this distance."),
    ] = None,
    category: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Only these categories, such as road/#."),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Print at most N entities; 0: all.")
    ] = 20,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Find entities by name, key or category, or around a place."""
    from world.arrow_without_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()
    from world.search.entity_search import EntityQuery, find_entities
    from world.search.places import read_place
    from world.search.searched_world import SearchedWorld

    settings = load_settings(config, {"world.dir": world})
    place = None if near is None else read_place(near)
    query = EntityQuery(" ".join(text) if text else None, category, place, within, limit)
    result = find_entities(SearchedWorld.open(settings.world.dir, version), query)
    if as_json:
        _print_json(result.as_json())
    else:
        _print_found(result)
        _remark_on_distance(result)


def categories(
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Only these places of the tree, such as road/#."),
    ] = None,
    *,
    world: WorldOption = None,
    version: VersionOption = None,
    levels: Annotated[
        int, typer.Option(metavar="N", min=0, help="Print only the first N levels; 0: all.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: ConfigOption = None,
) -> None:
    """Show the category tree of a world with its numbers of entities."""
    from world.arrow_without_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()
    from world.search.categories import count_categories
    from world.search.searched_world import SearchedWorld

    settings = load_settings(config, {"world.dir": world})
    opened = SearchedWorld.open(settings.world.dir, version)
    counts = count_categories(opened.categories, pattern, levels)
    if as_json:
        shown = [count.as_json() for count in counts]
        _print_json({"version": opened.facts.version, "categories": shown})
    else:
        _print_categories(counts)


def _print_json(value: object) -> None:
    from spaps.cli.output import printable_json

    typer.echo(printable_json(value))


def _print_found(result: SearchResult) -> None:
    from rich.text import Text

    from spaps.cli.output import plain_table, print_remark, printable, results

    if not result.entities:
        print_remark(f"nothing found in world version {result.version}")
        return
    table = plain_table()
    with_keys = any(one.key != str(one.peid) for one in result.entities)
    with_distance = result.entities[0].distance is not None
    table.add_column("peid", justify="right", no_wrap=True)
    if with_keys:
        table.add_column("key", overflow="fold")
    table.add_column("name", overflow="fold")
    table.add_column("categories", overflow="fold", style="dim")
    if with_distance:
        table.add_column("distance", justify="right", no_wrap=True)
    for one in result.entities:
        cells = [str(one.peid), one.name or "", ", ".join(one.categories)]
        if with_keys:
            cells.insert(1, one.key)
        if with_distance:
            cells.append(f"{one.distance:,.1f} m")
        table.add_row(*(Text(printable(cell)) for cell in cells))
    results().print(table)
    if len(result.entities) < result.count:
        more = result.count - len(result.entities)
        print_remark(f"and {more:,} more; --limit 0 prints all {result.count:,}")


def _remark_on_distance(result: SearchResult) -> None:
    """Say that a place is far from everything: longitude and latitude may be swapped."""
    from spaps.cli.output import print_remark

    distance = result.entities[0].distance if result.entities else None
    if distance is not None and distance > FAR_METRES:
        print_remark(
            f"the nearest is {distance / 1000:,.0f} km away: --near takes longitude first, then "
            "latitude"
        )


def _print_categories(counts: list[CategoryCount]) -> None:
    from rich.text import Text

    from spaps.cli.output import plain_table, printable, results

    table = plain_table()
    table.add_column("category", overflow="fold")
    table.add_column("entities", justify="right", no_wrap=True)
    table.add_column("exactly this", justify="right", no_wrap=True, style="dim")
    top = min((count.depth for count in counts), default=0)
    for count in counts:
        here = f"{count.here:,}" if count.here else ""
        place = Text("  " * (count.depth - top) + printable(count.category))
        table.add_row(
            place, f"{count.entities:,}", here, style="bold" if count.depth == top else None
        )
    results().print(table)
