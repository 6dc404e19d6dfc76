"""``spaps map`` writes a world as one HTML page with a search, which needs no network."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

from schemas.settings import load_settings
from spaps.cli.options import ConfigOption, VersionOption, WorldOption


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
    from spaps.cli.output_file import write_text
    from spaps.cli.terminal import print_remark, remarks
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
