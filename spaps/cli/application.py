"""The commands of ``spaps``, in the order in which help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from spaps.cli.commands.broker_command import broker, config, passwd
from spaps.cli.commands.control_command import sessions, trace, why
from spaps.cli.commands.export_command import export, world_map
from spaps.cli.commands.find_command import categories, find
from spaps.cli.commands.import_command import import_sources
from spaps.cli.commands.neighborhood_command import neighborhood
from spaps.cli.commands.pub_command import pub
from spaps.cli.commands.rebuild_command import rebuild_world
from spaps.cli.commands.resolve_command import check, resolve
from spaps.cli.commands.sub_command import sub
from spaps.cli.commands.top_command import top
from spaps.cli.commands.versions_command import rollback_world, show_versions
from spaps.cli.options import HELP_OPTIONS, PlainCommand, PlainGroup
from spaps.version import __version__

app = typer.Typer(
    help="Publish and subscribe by place: an MQTT broker, its clients and its map data.",
    cls=PlainGroup,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("import", cls=PlainCommand)(import_sources)
app.command("export", cls=PlainCommand)(export)
app.command("find", cls=PlainCommand)(find)
app.command("categories", cls=PlainCommand)(categories)
app.command("map", cls=PlainCommand)(world_map)
app.command("check", cls=PlainCommand)(check)
app.command("resolve", cls=PlainCommand)(resolve)
app.command("rebuild", cls=PlainCommand)(rebuild_world)
app.command("rollback", cls=PlainCommand)(rollback_world)
app.command("versions", cls=PlainCommand)(show_versions)
app.command("broker", cls=PlainCommand)(broker)
app.command("passwd", cls=PlainCommand)(passwd)
app.command("sub", cls=PlainCommand, context_settings=HELP_OPTIONS)(sub)
app.command("pub", cls=PlainCommand, context_settings=HELP_OPTIONS)(pub)
app.command("top", cls=PlainCommand)(top)
app.command("why", cls=PlainCommand)(why)
app.command("trace", cls=PlainCommand)(trace)
app.add_typer(neighborhood, name="neighborhood")
app.add_typer(sessions, name="sessions")
app.add_typer(config, name="config")


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """Print version or help when no command is given."""
    if show_version:
        typer.echo(f"spaps {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
