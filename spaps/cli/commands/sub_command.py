"""``spaps sub``: subscribe from the shell, as with mosquitto_sub, and by neighborhood."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from schemas.errors import SettingsError
from spaps.cli.descriptor_argument import HELP, read_descriptor
from spaps.cli.mqtt_options import Connecting, QosOption, with_connection

MAX_EXPIRY: Final = 2**32 - 1


@with_connection
def sub(  # noqa: PLR0913  one for each option
    *,
    topics: Annotated[
        list[str], typer.Option("-t", "--topic", metavar="FILTER", help="Can be given again.")
    ],
    neighborhood: Annotated[
        str | None, typer.Option(metavar="DESCRIPTOR", help=f"Only about its entities. {HELP}")
    ] = None,
    nsid: Annotated[
        int | None, typer.Option(min=0, help="Number of the neighborhood; default: the broker's.")
    ] = None,
    qos: QosOption = 0,
    count: Annotated[
        int | None, typer.Option("-C", metavar="N", min=1, help="End after N messages.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("-W", metavar="SECONDS", min=0, help="End after this time, with code 27."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print the topic before the payload.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line: with nsids and peid.")
    ] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="Also tell when the neighborhood itself changes.")
    ] = False,
    no_retained: Annotated[bool, typer.Option("-R", help="Leave retained messages out.")] = False,
    no_newline: Annotated[
        bool, typer.Option("-N", help="Nothing but the payloads: no line ends.")
    ] = False,
    keep_session: Annotated[
        bool, typer.Option("-c", help="Take up the session of this client id; needs -i.")
    ] = False,
    session_expiry: Annotated[
        int,
        typer.Option(
            "-x", metavar="SECONDS", min=0, max=MAX_EXPIRY, help="How long the session is kept."
        ),
    ] = 0,
    connecting: Connecting,
) -> int:
    """Print messages: all under a topic filter, or those about a neighborhood's entities.

    Letters are mosquitto_sub's; -h is the host, help is --help.
    """
    from spaps.cli.monitor.message_printer import MessagePrinter, print_messages

    if nsid is not None and (neighborhood is None or len(topics) > 1):
        raise SettingsError("--nsid numbers one --neighborhood under one -t")
    if keep_session and not connecting.client_id:
        raise SettingsError("-c takes up the session of a client id: name it with -i")
    options = connecting.options()
    options["clean_start"] = not keep_session
    options["session_expiry"] = session_expiry
    wanted = None if neighborhood is None else read_descriptor(neighborhood)
    printer = MessagePrinter(
        as_json=as_json, with_topic=verbose, line_ends=not no_newline, retained=not no_retained
    )
    return print_messages(
        (connecting.host, connecting.port, options),
        [(topic, wanted, qos, nsid) for topic in topics],
        printer,
        count=count,
        seconds=seconds,
        changes=changes,
    )
