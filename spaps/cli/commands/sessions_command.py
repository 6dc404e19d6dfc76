"""``spaps sessions``: the sessions of a running broker, and their end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from schemas.errors import SettingsError
from schemas.settings import control_socket_path, load_settings
from spaps.cli.command_help import PlainCommand, PlainGroup
from spaps.cli.options import ConfigOption, WorldOption

SocketOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--socket", metavar="FILE", help="The broker's socket; default: the one of its world."
    ),
]
COLUMNS: Final = ("client", "user", "address", "state", "since", "expires")
COUNTS: Final = ("subscriptions", "queued")

sessions = typer.Typer(
    cls=PlainGroup,
    help="The sessions of a running broker of this machine.",
    invoke_without_command=True,
)


@sessions.callback()
def start(context: typer.Context) -> None:
    """Print help when no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@sessions.command("list", cls=PlainCommand)
def list_sessions(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    world: WorldOption = None,
    path: SocketOption = None,
    config: ConfigOption = None,
) -> None:
    """List all sessions: who, from where, since when, until when, and what waits for them."""
    from spaps.cli.monitor.broker_control import ask
    from spaps.cli.printable_text import printable_json

    rows = list(ask(socket_path(world, path, config), {"command": "list"}))
    rows.sort(key=lambda row: (row["client"], row["user"] or ""))
    if as_json:
        for row in rows:
            typer.echo(printable_json(row))
    else:
        _print_table(rows)


@sessions.command("end", cls=PlainCommand)
def end_session(
    client_id: Annotated[str, typer.Argument(metavar="CLIENT_ID", help="Whose session.")],
    *,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="Whose client id, when several users have it."),
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="The one without a user name.")
    ] = False,
    world: WorldOption = None,
    path: SocketOption = None,
    config: ConfigOption = None,
) -> None:
    """End a session with its subscriptions and queue; its client is disconnected (0x98)."""
    from spaps.cli.monitor.broker_control import ask
    from spaps.cli.printable_text import printable

    if anonymous and user is not None:
        raise SettingsError("--user and --anonymous exclude each other")
    request: dict[str, Any] = {"command": "end", "client": client_id}
    if anonymous or user is not None:
        request["user"] = user
    for _ in ask(socket_path(world, path, config), request):
        pass
    typer.echo(f"session of {printable(client_id)} ended")


def socket_path(world: str | None, given: Path | None, config: Path | None) -> Path:
    """Return where the broker's control socket is."""
    control = None if given is None else str(given)
    settings = load_settings(config, {"world.dir": world, "broker.control": control})
    path = control_socket_path(settings)
    if path is None:
        raise SettingsError('broker.control is "none": a broker without a socket cannot be asked')
    return path


def _print_table(rows: Iterable[dict[str, Any]]) -> None:
    from rich.box import HORIZONTALS
    from rich.markup import escape
    from rich.table import Table

    from spaps.cli.terminal import printable, results

    table = Table(box=HORIZONTALS, pad_edge=False, border_style="dim")
    for name in COLUMNS:
        table.add_column(name)
    for name in COUNTS:
        table.add_column(name, justify="right")
    for row in rows:
        texts = ["-" if row[name] is None else str(row[name]) for name in COLUMNS]
        table.add_row(
            *(escape(printable(text)) for text in texts), *(f"{row[n]:,}" for n in COUNTS)
        )
    results().print(table)
