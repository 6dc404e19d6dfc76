"""``spaps pub`` publishes from the shell, as mosquitto_pub does, and about an entity."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import SettingsError
from spaps.cli.options import MqttConnection, QosOption, with_connection


@with_connection
def pub(  # noqa: PLR0913  one for each option
    *,
    topic: Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", help="Topic.")],
    message: Annotated[
        str | None, typer.Option("-m", "--message", metavar="TEXT", help="The payload.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="File that holds the payload."),
    ] = None,
    stdin: Annotated[bool, typer.Option("-s", help="Standard input is the payload.")] = False,
    lines: Annotated[
        bool, typer.Option("-l", help="Each line of standard input is a payload.")
    ] = False,
    nothing: Annotated[bool, typer.Option("-n", help="Send an empty payload.")] = False,
    peid: Annotated[
        int | None,
        typer.Option(metavar="PEID", help="peid of the entity that the message is about."),
    ] = None,
    qos: QosOption = 0,
    retain: Annotated[
        bool, typer.Option("-r", "--retain", help="The broker retains the message.")
    ] = False,
    connection: MqttConnection,
) -> None:
    """Publish a message; with --peid about an entity.

    Short options are those of mosquitto_pub: -h is the host.
    """
    from spaps.client.message import check_topic, peid_pair
    from spaps.client.spatial_client import SpatialClient

    ways = [message is not None, file is not None, stdin, lines, nothing]
    # Errors before anything is connected.
    check_topic(topic)
    if peid is not None:
        peid_pair(peid)
    if sum(ways) != 1:
        raise SettingsError("give the payload by exactly one of -m, -f, -s, -l and -n")
    options = connection.options()
    # A refused message ends the command with an error, so it needs no second line.
    with SpatialClient(
        connection.host, connection.port, on_problem=lambda _: None, **options
    ) as client:
        for payload in _payloads(message, file, whole=stdin, lines=lines):
            client.publish(topic, payload, peid=peid, qos=qos, retain=retain).wait()


def _payloads(
    message: str | None, file: Path | None, *, whole: bool, lines: bool
) -> Iterator[bytes]:
    if message is not None:
        yield message.encode()
    elif file is not None:
        yield file.read_bytes()
    elif whole:
        yield sys.stdin.buffer.read()
    elif lines:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
    else:
        yield b""
