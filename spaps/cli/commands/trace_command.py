"""``spaps trace``: what happens to one client or topic in a running broker, while it happens."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from schemas.errors import SettingsError
from spaps.cli.control_link import SocketOption, ask, socket_path
from spaps.cli.options import ConfigOption, WorldOption
from spaps.cli.terminal import printable, printable_json

_NAMED_FIRST: Final = ("time", "client", "user", "event")


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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as a line of JSON.")
    ] = False,
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
