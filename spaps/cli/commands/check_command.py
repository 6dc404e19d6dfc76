"""``spaps check``: says what a neighborhood means, and what is wrong with it."""

from __future__ import annotations

import typer

from spaps.cli.descriptor_argument import DescriptorArgument, read_descriptor
from spaps.cli.printable_text import printable


def check(descriptor: DescriptorArgument) -> None:
    """Say what a neighborhood means in words, with errors and warnings."""
    from schemas.language.explain import explain, neighborhood_warnings
    from schemas.language.notation import notation

    neighborhood = read_descriptor(descriptor)
    if neighborhood.name is not None:
        typer.echo(printable(neighborhood.name))
    typer.echo(printable(notation(neighborhood)))
    for sentence in explain(neighborhood):
        typer.echo(f"  {printable(sentence)}")
    for warning in neighborhood_warnings(neighborhood):
        typer.echo(f"warning: {printable(warning)}", err=True)
