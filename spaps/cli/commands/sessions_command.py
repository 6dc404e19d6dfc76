"""``spaps sessions`` lists and ends sessions of a running broker, over its control socket."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from schemas.errors import SettingsError
from spaps.cli.control_link import JsonLinesOption, SocketOption, ask, socket_path
from spaps.cli.options import ConfigOption, PlainCommand, WorldOption, command_group
from spaps.cli.output import plain_table, printable, printable_json, results

COLUMNS: Final = ("client", "user", "address", "state", "since", "expires")
COUNTS: Final = ("subscriptions", "queued")

sessions = command_group("List and end sessions of a broker that runs on this machine.")


@sessions.command("list", cls=PlainCommand)
def list_sessions(
    *,
    as_json: JsonLinesOption = False,
    world: WorldOption = None,
    path: SocketOption = None,
    config: ConfigOption = None,
) -> None:
    """List all sessions: client, user, address, times, subscriptions, queued messages."""
    rows = list(ask(socket_path(world, path, config), {"command": "list"}))
    rows.sort(key=lambda row: (row["client"], row["user"] or ""))
    if as_json:
        for row in rows:
            typer.echo(printable_json(row))
    else:
        _print_table(rows)


@sessions.command("end", cls=PlainCommand)
def end_session(
    client_id: Annotated[
        str, typer.Argument(metavar="CLIENT_ID", help="Client id of the session.")
    ],
    *,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="USER", help="User, when several users have this client id."
        ),
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="The session without a user name.")
    ] = False,
    world: WorldOption = None,
    path: SocketOption = None,
    config: ConfigOption = None,
) -> None:
    """End a session with its subscriptions and queue; disconnect its client (0x98)."""
    if anonymous and user is not None:
        raise SettingsError("--user and --anonymous exclude each other")
    request: dict[str, Any] = {"command": "end", "client": client_id}
    if anonymous or user is not None:
        request["user"] = user
    for _ in ask(socket_path(world, path, config), request):
        pass
    typer.echo(f"session of {printable(client_id)} ended")


def _print_table(rows: Iterable[dict[str, Any]]) -> None:
    from rich.markup import escape

    table = plain_table()
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
