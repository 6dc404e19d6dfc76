"""``spaps sessions`` lists and ends sessions of a running broker, over its control socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from schemas.errors import SettingsError
from schemas.settings import control_socket_path, load_settings
from spaps.cli.options import ConfigOption, PlainCommand, PlainGroup, WorldOption
from spaps.cli.terminal import plain_table, printable, printable_json, results
from spaps.client.errors import NotConnectedError

SocketOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--socket", metavar="FILE", help="Control socket of the broker; default: that of the world."
    ),
]
ANSWER_SECONDS: Final = 30.0
COLUMNS: Final = ("client", "user", "address", "state", "since", "expires")
COUNTS: Final = ("subscriptions", "queued")

sessions = typer.Typer(
    cls=PlainGroup,
    help="List and end sessions of a broker that runs on this machine.",
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each session as a line of JSON.")
    ] = False,
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


def socket_path(world: str | None, given: Path | None, config: Path | None) -> Path:
    """Return where the broker's control socket is."""
    control = None if given is None else str(given)
    settings = load_settings(config, {"world.dir": world, "broker.control": control})
    path = control_socket_path(settings)
    if path is None:
        raise SettingsError('broker.control is "none": this broker has no control socket')
    return path


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


class RequestRefusedError(SettingsError):
    """The broker refused a request."""


def ask(path: Path, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send a request and return the rows of its answer, without the last line."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(ANSWER_SECONDS)
        try:
            link.connect(str(path))
            link.sendall(json.dumps(request).encode() + b"\n")
            with link.makefile("r", encoding="utf-8") as answer:
                for line in answer:
                    row = json.loads(line)
                    if "error" in row:
                        raise RequestRefusedError(row["error"])
                    if "done" in row:
                        return
                    yield row
        except PermissionError:
            raise NotConnectedError(
                f"{path} belongs to another user: run this as the user that runs the broker"
            ) from None
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NotConnectedError(
                f"no broker answers at {path}: give the world of a running broker with --world, "
                "or its control socket with --socket (broker.control in its settings)"
            ) from None
        except (OSError, ValueError) as error:
            raise NotConnectedError(f"the broker at {path} does not answer: {error}") from error
    raise NotConnectedError(f"the broker at {path} ended before it had answered")
