"""``spaps export`` writes a world or a neighborhood into a file, ``spaps map`` a map page."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, VersionOption, WorldOption

if TYPE_CHECKING:  # at run time only when the command runs
    from world.export_file import Members


def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .parquet, .geojson or .csv file to write.")
    ],
    *,
    world: WorldOption = None,
    version: VersionOption = None,
    neighborhood: Annotated[
        str | None,
        typer.Option(metavar="DESCRIPTOR", help="Write only the members of this neighborhood."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write entities as GeoParquet, GeoJSON or CSV, by the ending of the file."""
    from spaps.cli.output import output_file, print_result, remarks
    from world.arrow_without_pandas import hide_pandas_from_arrow
    from world.export_file import exported_rows, writer_of
    from world.versions.store import WorldStore

    hide_pandas_from_arrow()
    write = writer_of(file)
    settings = load_settings(config, {"world.dir": world})
    place = settings.world.dir
    facts = WorldStore(place).facts_of(version)
    with remarks().status("reading the world"):
        members = None if neighborhood is None else _members(place, facts.version, neighborhood)
        rows = exported_rows(place, facts.version, members)
    with remarks().status("writing"), output_file(file) as draft:
        write(rows, facts.srid, draft)
    what = "entities" if members is None else "members"
    print_result(f"{file}: {rows.num_rows:,} {what} of world version {facts.version}")


def _members(world: str, version: int, descriptor: str) -> Members:
    import numpy as np

    from spaps.cli.neighborhood_input import read_descriptor
    from spaps.cli.output import print_warning
    from spatial_udfs.exact.exact_resolver import ExactResolver, resolve_named
    from world.export_file import Members
    from world.snapshot import load_snapshot

    table = load_snapshot(world, version)
    resolver = ExactResolver(table)
    found = resolve_named(resolver, table, read_descriptor(descriptor))
    resolution = found.resolution
    for warning in found.warnings(resolver, table):
        print_warning(warning)
    visible = [
        (peids, np.full(len(peids), number))
        for number, (peids, shown) in enumerate(
            zip(resolution.stages, resolution.visible, strict=True), start=1
        )
        if shown
    ]
    peids, stages = (np.concatenate(column) for column in zip(*visible, strict=True))
    return Members(peids, stages)


def world_map(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write.")],
    world: WorldOption = None,
    version: VersionOption = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Title; default: the name of the world.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write a whole world as a map page to search and look around in."""
    from world.arrow_without_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()
    from spaps.cli.output import print_remark, remarks, write_text
    from spaps.map_page.page import PageTexts, world_page
    from world.snapshot import load_snapshot
    from world.versions.store import WorldStore

    settings = load_settings(config, {"world.dir": world})
    store = WorldStore(settings.world.dir)
    facts = store.facts_of(version)
    # All that is made is needed to the end: looking for garbage takes a tenth of the time.
    gc.disable()
    try:
        with remarks().status("loading the world"):
            table = load_snapshot(store.path, facts.version)
        with remarks().status(f"drawing {len(table):,} entities"):
            texts = PageTexts(title or _name_of(store.path), attribution=facts.attribution())
            write_text(out, world_page(table, texts))
    finally:
        gc.enable()
    size = out.stat().st_size / 1e6 if out.is_file() else 0
    print_remark(f"written: {out} ({len(table):,} entities, {size:.1f} MB)")


def _name_of(path: str) -> str:
    """Return the last part of the world's path, or the one before a plain "world"."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return " / ".join(parts[-2:]) if parts[-1:] == ["world"] else (parts or ["World"])[-1]
