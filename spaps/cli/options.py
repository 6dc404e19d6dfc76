"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

WorldOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Folder or URI of the world; default: world.dir in conf."),
]
VersionOption: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="World version; default: the newest.")
]
ConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings that differ from conf/spaps.toml.")
]
