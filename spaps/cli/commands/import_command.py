"""``spaps import`` makes a world version out of one or more sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.errors import SettingsError
from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, WorldOption

if TYPE_CHECKING:  # at run time only when the command runs
    from world.imports.import_request import ImportRequest
    from world.imports.world_import import ImportReport


def import_sources(  # noqa: PLR0913  one for each option of the contract
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="OSM, GeoJSON, Parquet, Delta, Shapefile, GeoPackage, or one import file (.toml).",
        ),
    ],
    *,
    world: WorldOption = None,
    id_field: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Field of the identifiers; default: key or id."),
    ] = None,
    key_prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text to put before each identifier.")
    ] = None,
    category_field: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Field of the categories; default: categories or category."
        ),
    ] = None,
    category: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Category to put before those of the rows, and alone where a row has none.",
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rules that map attributes to categories; default for OSM: conf/categories.toml.",
        ),
    ] = None,
    name_field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Field of the names; default: name.")
    ] = None,
    geometry_field: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Column of WKB or WKT in Parquet and Delta; default: geometry, geom, wkb …",
        ),
    ] = None,
    crs: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="CRS of a source that does not name it, such as EPSG:25832."
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Layer to read of a GeoPackage that has several."),
    ] = None,
    srid: Annotated[
        int | None,
        typer.Option(
            metavar="CODE",
            help="EPSG code of the world's metric CRS; default: the UTM zone of the data.",
        ),
    ] = None,
    snap: Annotated[
        float | None,
        typer.Option(
            metavar="METRES",
            help="Insert missing vertices up to this distance, so that neighbors touch; try 0.001.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Import nothing if a row has a problem.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what was understood, and write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Make a version even if nothing has changed.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Import sources as a new version of the world.

    --dry-run shows first what is understood.
    """
    from spaps.cli.terminal import PhaseProgress
    from world.arrow_without_pandas import hide_pandas_from_arrow
    from world.imports.import_request import request_of
    from world.imports.world_import import import_request

    hide_pandas_from_arrow()
    options = {
        "id_field": id_field, "key_prefix": key_prefix, "category_field": category_field,
        "category": category, "rules": rules, "name_field": name_field,
        "geometry_field": geometry_field, "crs": crs, "layer": layer,
    }  # fmt: skip
    settings = load_settings(config, {"world.dir": world})
    if "" in sources:
        raise SettingsError("a SOURCE is empty: give the path of a file")
    request = request_of(sources, srid=srid, snap=snap, **options)
    if dry_run:
        _preview(request, strict=strict)
        return
    with PhaseProgress() as progress:
        report = import_request(
            request, settings.world.dir, strict=strict, force=force, progress=progress
        )
    _print_report(report, settings.world.dir)


def _preview(request: ImportRequest, *, strict: bool) -> None:
    from spaps.cli.import_preview import preview_of
    from spaps.cli.terminal import PhaseProgress, print_warning, results
    from world.imports.dry_run import dry_run
    from world.imports.world_import import refuse_if_empty, refuse_if_strict

    with PhaseProgress() as progress:
        found = dry_run(request, progress)
    results().print(preview_of(found))
    for warning in found.warnings:
        print_warning(warning)
    refuse_if_strict(found.problems, strict=strict)
    refuse_if_empty(found.entities, found.problems, found.warnings)


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
    for note in report.notes:
        out.print(f"  {escape(printable(note))}", soft_wrap=True)
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
