"""``spaps why`` explains who gets a message, ``spaps trace`` shows what happens meanwhile.

Both ask the broker that runs on this machine, over its control socket.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from schemas.errors import SettingsError
from spaps.cli.control_link import JsonLinesOption, SocketOption, ask, socket_path
from spaps.cli.options import ConfigOption, WorldOption
from spaps.cli.output import plain_table, printable, printable_json, results

# The line of an event has these in front, and every other field as name=value.
_NAMED_FIRST: Final = ("time", "client", "user", "event")


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
    _print_table([row for row in found if "verdict" in row])
    left = sum(row.get("left", 0) for row in found)
    if left:
        typer.echo(f"{left:,} more: --offset {offset + limit} shows the next ones")
    elif not found:
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


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    table = plain_table()
    for name in ("client", "user", "filter", "nsid", "why"):
        table.add_column(name)
    for row in rows:
        named = (row["client"], row["user"], row["filter"], row["nsid"], row["text"])
        texts = ["-" if one is None else printable(str(one)) for one in named]
        table.add_row(*map(escape, texts))
    if rows:
        results().print(table)


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
