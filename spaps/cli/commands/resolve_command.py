"""``spaps check`` explains a neighborhood; ``spaps resolve`` finds its members."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from schemas.errors import SettingsError
from schemas.settings import load_settings
from spaps.cli.neighborhood_input import HELP, DescriptorArgument, read_descriptor
from spaps.cli.options import ConfigOption, VersionOption, WorldOption
from spaps.cli.terminal import printable

USAGE: Final = "give one DESCRIPTOR, or --subscriptions F.jsonl with --out F.parquet"


def check(
    descriptor: DescriptorArgument,
    *,
    world: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Look references and categories up in this world; default: none."
        ),
    ] = None,
    version: VersionOption = None,
) -> None:
    """Explain a neighborhood in words, with errors and warnings."""
    from schemas.language.explain import explain, neighborhood_warnings
    from schemas.language.notation import notation

    neighborhood = read_descriptor(descriptor)
    if neighborhood.places:
        from spatial_udfs.place_geometries import check_places

        check_places(neighborhood)
    names: dict[int, str] = {}
    warnings: list[str] = []
    if world is not None:
        from spaps.cli.checked_references import checked_references

        neighborhood, names, warnings = checked_references(neighborhood, world, version)
    elif version is not None:
        raise SettingsError("--version needs a world: give --world DIR")
    if neighborhood.name is not None:
        typer.echo(printable(neighborhood.name))
    typer.echo(printable(notation(neighborhood)))
    for sentence in explain(neighborhood, names):
        typer.echo(f"  {printable(sentence)}")
    for warning in (*neighborhood_warnings(neighborhood), *warnings):
        typer.echo(f"warning: {printable(warning)}", err=True)


def resolve(  # noqa: PLR0913  one for each option of the contract
    descriptor: Annotated[str | None, typer.Argument(metavar="DESCRIPTOR", help=HELP)] = None,
    *,
    world: WorldOption = None,
    version: VersionOption = None,
    map_file: Annotated[
        Path | None, typer.Option("--map", metavar="FILE.html", help="Write a map page.")
    ] = None,
    geojson_file: Annotated[
        Path | None, typer.Option("--geojson", metavar="FILE", help="Write GeoJSON (WGS 84).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole result as JSON.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Print at most N members of each stage; 0: all.")
    ] = 20,
    subscriptions: Annotated[
        Path | None, typer.Option(metavar="F.jsonl", help="Resolve all subscriptions of a file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="F.parquet", help="Parquet file for their members.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Find the members of one neighborhood, or of a file of subscriptions."""
    from world.arrow_without_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()
    settings = load_settings(config, {"world.dir": world})
    if descriptor is not None and subscriptions is None and out is None:
        from spaps.cli.resolve_one import ResolveOutput, resolve_one

        output = ResolveOutput(map_file, geojson_file, as_json=as_json, limit=limit)
        resolve_one(descriptor, settings.world.dir, version, output)
    elif descriptor is None and subscriptions is not None and out is not None:
        if map_file is not None or geojson_file is not None or as_json:
            raise SettingsError(
                "--map, --geojson and --json work with one DESCRIPTOR, not with --subscriptions"
            )
        from spaps.cli.resolve_many import resolve_many

        resolve_many(subscriptions, out, settings.world.dir, version)
    else:
        raise SettingsError(USAGE)
