"""``spaps why``, ``trace`` and ``sessions`` ask the broker that runs on this machine.

``why`` explains who gets a message, ``trace`` shows what happens to a client or a topic, and
``sessions`` lists and ends sessions. All use the broker's control socket.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from schemas.errors import SettingsError
from spaps.cli.control_link import JsonLinesOption, SocketOption, ask, socket_path
from spaps.cli.options import ConfigOption, PlainCommand, WorldOption, command_group
from spaps.cli.output import plain_table, printable, printable_json, results

# The line of an event has these in front, and every other field as name=value.
_NAMED_FIRST: Final = ("time", "client", "user", "event")
# The table of sessions.
COLUMNS: Final = ("client", "user", "address", "state", "since", "expires")
COUNTS: Final = ("subscriptions", "queued")


def why(  # noqa: PLR0913  one for each option
    *,
    topic: Annotated[
        str, typer.Option("-t", "--topic", metavar="TOPIC", help="Topic of the message.")
    ],
    peid: Annotated[
        str | None,
        typer.Option(
            "--peid", metavar="PEID", help="peid of the entity that the message is about."
        ),
    ] = None,
    qos: Annotated[
        int, typer.Option("-q", "--qos", metavar="QOS", min=0, max=2, help="QoS of the message.")
    ] = 0,
    client: Annotated[
        str | None,
        typer.Option("-i", "--client", metavar="ID", help="Only the subscriptions of this client."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="At most N subscriptions, up to 1000.")
    ] = 100,
    offset: Annotated[
        int, typer.Option("--offset", metavar="N", help="Skip the first N subscriptions.")
    ] = 0,
    as_json: JsonLinesOption = False,
    world: WorldOption = None,
    path: SocketOption = None,
    config: ConfigOption = None,
) -> None:
    """Say for each subscription under a topic whether it gets a message, or why not.

    The broker that runs on this machine answers from what is in force now. Nothing is published.
    """
    request: dict[str, Any] = {"command": "why", "topic": topic, "qos": qos, "limit": limit}
    request |= {"offset": offset}
    request |= {} if peid is None else {"peid": peid}
    request |= {} if client is None else {"client": client}
    rows = ask(socket_path(world, path, config), request)
    if as_json:
        for row in rows:
            typer.echo(printable_json(row))
        return
    message = next(rows)
    typer.echo(_message_line(message))
    found = list(rows)
    verdicts = [{**row, "why": row["text"]} for row in found if "verdict" in row]
    if verdicts:
        _print_table(verdicts, ("client", "user", "filter", "nsid", "why"))
    left = sum(row.get("left", 0) for row in found)
    if left:
        typer.echo(f"{left:,} more: --offset {offset + limit} shows the next ones")
    elif not found and message["refused"] is None:
        is_any = message["subscriptions"] > 0
        typer.echo("no subscription of this client" if is_any else "nobody is subscribed")


def _message_line(message: dict[str, Any]) -> str:
    """Return one line about the message itself."""
    about = ""
    if message["peid"] is not None:
        about = f" about entity {message['peid']}"
        if message["exists"] is False:
            about += f", which world version {message['worldVersion']} does not have,"
    if message["key"] is not None:
        about = f" with the key {printable(message['key'])}, which no entity has,"
    line = f"a message on {printable(message['topic'])}{about}"
    if message["refused"] is not None:
        return f"{line} is refused: {printable(message['refused'])}"
    return line.removesuffix(",")


def trace(  # noqa: PLR0913  one for each option
    *,
    client: Annotated[
        str | None, typer.Option("-i", "--client", metavar="ID", help="Trace this client id.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("-t", "--topic", metavar="FILTER", help="Trace messages under this filter."),
    ] = None,
    seconds: Annotated[
        int, typer.Option("--seconds", metavar="N", help="End after N seconds, up to 3600.")
    ] = 60,
    lines: Annotated[
        int, typer.Option("--lines", metavar="N", help="End after N lines, up to 100000.")
    ] = 1_000,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Show the first 256 bytes of payloads too.")
    ] = False,
    to_log: Annotated[
        bool, typer.Option("--log", help="Write to the broker's log instead, and return at once.")
    ] = False,
    as_json: JsonLinesOption = False,
    world: WorldOption = None,
    path: SocketOption = None,
    config: ConfigOption = None,
) -> None:
    """Print what happens to one client or topic: packets, answers, deliveries, drops.

    It ends by itself, or with Ctrl-C. Other clients and topics keep their speed.
    """
    if (client is None) == (topic is None):
        raise SettingsError("give either --client or --topic")
    request: dict[str, Any] = {"command": "trace", "seconds": seconds, "lines": lines}
    request |= {"client": client} if topic is None else {"topic": topic}
    request |= {"payloads": payloads, "log": to_log}
    rows = ask(socket_path(world, path, config), request)
    try:
        for row in rows:
            if "leftOut" in row:
                sys.stderr.write(f"{row['leftOut']:,} lines are left out: they came too fast\n")
            elif "event" in row:
                typer.echo(printable_json(row) if as_json else _line(row))
    except KeyboardInterrupt:
        return
    if to_log:
        typer.echo(f"the broker's log has the trace for {seconds} s")


def _line(row: dict[str, Any]) -> str:
    """Return an event as time, client, event, then the fields as name=value."""
    when = datetime.fromtimestamp(row["time"], UTC).strftime("%H:%M:%S.%f")[:-3]
    who = "" if row["client"] is None else f" {row['client']}"
    who += "" if row["user"] is None else f" ({row['user']})"
    fields = "".join(
        f" {name}={value!r}" for name, value in row.items() if name not in _NAMED_FIRST
    )
    return printable(f"{when}{who}: {row['event']}{fields}")


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
        _print_table(rows, COLUMNS, COUNTS)


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


def _print_table(
    rows: Iterable[dict[str, Any]], columns: Sequence[str], counts: Sequence[str] = ()
) -> None:
    from rich.markup import escape

    table = plain_table()
    for name in columns:
        table.add_column(name)
    for name in counts:
        table.add_column(name, justify="right")
    for row in rows:
        texts = ["-" if row[name] is None else printable(str(row[name])) for name in columns]
        table.add_row(*map(escape, texts), *(f"{row[name]:,}" for name in counts))
    results().print(table)
