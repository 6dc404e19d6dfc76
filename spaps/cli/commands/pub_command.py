"""``spaps pub``: publish from the shell, as with mosquitto_pub, and about an entity."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import SettingsError
from spaps.cli.mqtt_options import Connecting, QosOption, with_connection


@with_connection
def pub(  # noqa: PLR0913  one for each option
    *,
    topic: Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC")],
    message: Annotated[
        str | None, typer.Option("-m", "--message", metavar="TEXT", help="The payload.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="The payload is in it.")
    ] = None,
    stdin: Annotated[bool, typer.Option("-s", help="All of standard input is one.")] = False,
    lines: Annotated[bool, typer.Option("-l", help="Each line of standard input is one.")] = False,
    nothing: Annotated[bool, typer.Option("-n", help="An empty payload.")] = False,
    peid: Annotated[
        int | None, typer.Option(metavar="PEID", help="The entity that the message is about.")
    ] = None,
    qos: QosOption = 0,
    retain: Annotated[bool, typer.Option("-r", "--retain", help="The broker keeps it.")] = False,
    connecting: Connecting,
) -> None:
    """Publish a message, about an entity when --peid names one.

    Letters are mosquitto_pub's; -h is the host, help is --help.
    """
    from spaps.client.message import check_topic, peid_pair
    from spaps.client.spatial_client import SpatialClient

    ways = [message is not None, file is not None, stdin, lines, nothing]
    # Errors before anything is connected.
    check_topic(topic)
    if peid is not None:
        peid_pair(peid)
    if sum(ways) != 1:
        raise SettingsError("the payload is given by one of -m, -f, -s, -l and -n")
    options = connecting.options()
    # The refusal of a message is the error that ends the command, and needs no second line.
    with SpatialClient(
        connecting.host, connecting.port, on_problem=lambda _: None, **options
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
