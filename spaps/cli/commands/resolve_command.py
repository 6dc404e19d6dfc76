"""``spaps resolve``: one neighborhood for people to look at, or a file of subscriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import SettingsError
from schemas.settings import load_settings
from spaps.cli.descriptor_argument import HELP
from spaps.cli.options import ConfigOption, VersionOption, WorldOption

MANY = "many subscriptions: --subscriptions F.jsonl --out F.parquet; one: a DESCRIPTOR"


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
        bool, typer.Option("--json", help="Print the result as JSON, all of it.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Rows to print for each stage; 0: all.")
    ] = 20,
    subscriptions: Annotated[
        Path | None, typer.Option(metavar="F.jsonl", help="Resolve all subscriptions of a file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="F.parquet", help="Where their memberships go.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Resolve a neighborhood, or many, on a world version."""
    settings = load_settings(config, {"world.dir": world})
    if descriptor is not None and subscriptions is None and out is None:
        from spaps.cli.resolution.resolve_one import Wanted, resolve_one

        wanted = Wanted(map_file, geojson_file, as_json=as_json, limit=limit)
        resolve_one(descriptor, settings.world.dir, version, wanted)
    elif descriptor is None and subscriptions is not None and out is not None:
        if map_file is not None or geojson_file is not None or as_json:
            raise SettingsError("--map, --geojson and --json are for one DESCRIPTOR")
        from spaps.cli.resolution.resolve_many import resolve_many

        resolve_many(subscriptions, out, settings.world.dir, version)
    else:
        raise SettingsError(MANY)
