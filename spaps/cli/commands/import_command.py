"""``spaps import`` makes a world version out of one or more sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.errors import SettingsError
from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, WorldOption

if TYPE_CHECKING:  # at run time only when the command runs
    from world.imports.world_import import ImportReport


def import_sources(  # noqa: PLR0913  one for each option of the contract
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE…", help="OSM, GeoJSON or GeoParquet files.")
    ],
    *,
    world: WorldOption = None,
    category: Annotated[
        str | None,
        typer.Option(
            metavar="CATEGORY", help="Category of all entities of a file without categories."
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Field with the peid in a file that has no field 'peid'."
        ),
    ] = None,
    srid: Annotated[
        int | None,
        typer.Option(metavar="CODE", help="EPSG code of the metric CRS; default: the UTM zone."),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Category rules for OSM; default: conf/categories.toml."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Import nothing when an entity has a problem.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Make a version even if nothing has changed.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Import sources as a new version of the world."""
    from spaps.cli.terminal import PhaseProgress
    from world.imports.world_import import import_world

    settings = load_settings(config, {"world.dir": world})
    if "" in sources:
        raise SettingsError("a SOURCE is empty: give the path of a file")
    with PhaseProgress() as progress:
        report = import_world(
            sources,
            settings.world.dir,
            srid=srid,
            rules=rules,
            category=category,
            id_field=id_field,
            strict=strict,
            force=force,
            progress=progress,
        )
    _print_report(report, settings.world.dir)


def _print_report(report: ImportReport, world: str) -> None:
    from rich.markup import escape

    from spaps.cli.terminal import printable, remarks, results

    facts = report.facts
    done = "imported" if report.created else "unchanged, nothing imported"
    tops = ", ".join(f"{count:,} {top}" for top, count in report.top_categories.items())
    out = results()
    out.print(
        f"world [bold]{escape(printable(world))}[/], version [bold]{facts.version}[/]: {done}; "
        f"{facts.entity_count:,} entities, EPSG:{facts.srid}",
        soft_wrap=True,
    )
    out.print(f"  {escape(printable(tops))}", soft_wrap=True)
    if report.extent is not None:
        out.print(f"  {report.extent}", soft_wrap=True)
    for warning in report.warnings:
        remarks().print(f"  [yellow]warning:[/] {escape(printable(warning))}", soft_wrap=True)
    for summary in report.problems:
        left_out = summary.count - summary.kept
        kept = f"{summary.kept:,} kept, {left_out:,} left out"
        remarks().print(
            f"  [yellow]{summary.kind}[/]: {summary.count:,} ({kept}), "
            f"such as {escape(printable(str(summary.example)))}",
            soft_wrap=True,
        )
