"""``spaps why``: which subscriptions under a topic get a message about an entity, and why not."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spaps.cli.control_link import SocketOption, ask, socket_path
from spaps.cli.options import ConfigOption, WorldOption
from spaps.cli.terminal import plain_table, printable, printable_json, results


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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each row as a line of JSON.")
    ] = False,
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
