"""``spaps sub`` subscribes from the shell, as mosquitto_sub does, and by neighborhood."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas.errors import SettingsError
from schemas.language.neighborhood import Neighborhood
from spaps.cli.message_printer import MessagePrinter, StagesOfNsids, stage_subscriptions
from spaps.cli.neighborhood_input import HELP_WITH_NAME, read_descriptor_or_name
from spaps.cli.options import MqttConnection, QosOption, with_connection
from spaps.cli.output import printable
from spaps.client.errors import ClientError

if TYPE_CHECKING:  # at run time only when the command runs
    from spaps.client.message import Message, NeighborhoodChange
    from spaps.client.options import ConnectionOptions
    from spaps.client.spatial_client import SpatialClient

# The exit code of mosquitto_sub when the time of -W is over.
TIME_IS_OVER: Final = 27
# A wait without end would not notice Ctrl-C on every system.
LONGEST_WAIT: Final = 3600.0
MAX_EXPIRY: Final = 2**32 - 1


@with_connection
def sub(  # noqa: PLR0913  one for each option
    *,
    topics: Annotated[
        list[str],
        typer.Option(
            "-t", "--topic", metavar="FILTER", help="Topic filter; can be given more than once."
        ),
    ],
    neighborhood: Annotated[
        str | None,
        typer.Option(
            metavar="DESCRIPTOR",
            help=f"Only messages about entities of this neighborhood. {HELP_WITH_NAME}",
        ),
    ] = None,
    nsid: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="nsid of the neighborhood; default: the broker's choice."
        ),
    ] = None,
    qos: QosOption = 0,
    count: Annotated[
        int | None, typer.Option("-C", metavar="N", min=1, help="End after N messages.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "-W", metavar="SECONDS", min=0, help="End after this time, with exit code 27."
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print the topic before the payload.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print each message as a line of JSON, with nsids and peid."),
    ] = False,
    changes: Annotated[
        bool,
        typer.Option(
            "--changes", help="Print a line when a new world version changes the neighborhood."
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Print with each message which stages of the neighborhood matched."
        ),
    ] = False,
    no_retained: Annotated[
        bool, typer.Option("-R", help="Do not print retained messages.")
    ] = False,
    no_newline: Annotated[
        bool, typer.Option("-N", help="Print no line end after a payload.")
    ] = False,
    keep_session: Annotated[
        bool, typer.Option("-c", help="Resume the session of this client id; needs -i.")
    ] = False,
    session_expiry: Annotated[
        int,
        typer.Option(
            "-x",
            metavar="SECONDS",
            min=0,
            max=MAX_EXPIRY,
            help="Time for which the broker keeps the session.",
        ),
    ] = 0,
    connection: MqttConnection,
) -> int:
    """Print messages under a topic filter, with --neighborhood only those about its entities.

    Short options are those of mosquitto_sub: -h is the host.
    """
    if nsid is not None and (neighborhood is None or len(topics) > 1):
        raise SettingsError("--nsid needs one --neighborhood and one -t")
    if keep_session and not connection.client_id:
        raise SettingsError("-c resumes the session of a client id: give it with -i")
    options = connection.options()
    options["clean_start"] = not keep_session
    options["session_expiry"] = session_expiry
    if explain and (neighborhood is None or nsid is not None):
        raise SettingsError("--explain needs a --neighborhood, and chooses the nsids itself")
    wanted = None if neighborhood is None else read_descriptor_or_name(neighborhood)
    stages = None
    if explain and wanted is not None:
        if isinstance(wanted, str):
            raise SettingsError("--explain needs the neighborhood itself, not its name")
        stages = StagesOfNsids(wanted.name)
    printer = MessagePrinter(
        as_json=as_json,
        with_topic=verbose,
        line_ends=not no_newline,
        retained=not no_retained,
        stages=stages,
    )
    return print_messages(
        (connection.host, connection.port, options),
        [(topic, wanted, qos, nsid) for topic in topics],
        printer,
        count=count,
        seconds=seconds,
        changes=changes,
    )


def print_messages(
    broker: tuple[str, int | None, ConnectionOptions],
    wanted: Sequence[tuple[str, Neighborhood | str | None, int, int | None]],
    printer: MessagePrinter,
    *,
    count: int | None,
    seconds: float | None,
    changes: bool = False,
) -> int:
    """Subscribe, print messages as they come, and return the exit code.

    Each one wanted is a topic filter with its neighborhood, QoS and nsid.
    """
    from spaps.client.message import NeighborhoodChange
    from spaps.client.spatial_client import SpatialClient

    deadline = None if seconds is None else time.monotonic() + seconds
    inbox: queue.SimpleQueue[Message | NeighborhoodChange | ClientError] = queue.SimpleQueue()
    host, port, options = broker
    with SpatialClient(
        host,
        port,
        on_message=inbox.put,
        on_problem=inbox.put,
        on_neighborhood_change=inbox.put if changes else None,
        **options,
    ) as client:
        for topic, neighborhood, qos, nsid in wanted:
            if printer.stages is None or neighborhood is None or isinstance(neighborhood, str):
                _subscribe(client, topic, neighborhood, qos, nsid)
            else:
                _subscribe_by_stage(client, topic, neighborhood, qos, printer.stages)
        printed = 0
        while count is None or printed < count:
            left = LONGEST_WAIT if deadline is None else deadline - time.monotonic()
            try:
                message = inbox.get(timeout=max(left, 0.0))
            except queue.Empty:
                if deadline is None:
                    continue
                return TIME_IS_OVER
            if isinstance(message, ClientError):
                sys.stderr.write(f"spaps: {printable(str(message))}\n")
            elif isinstance(message, NeighborhoodChange):
                printer.show_change(message)
            elif printer.wants(message):
                printer.show(message)
                printed += 1
    return 0


def _subscribe(
    client: SpatialClient,
    topic: str,
    neighborhood: Neighborhood | str | None,
    qos: int,
    nsid: int | None,
) -> None:
    if neighborhood is None:
        granted = client.subscribe_topic(topic, qos=qos)
    else:
        granted = client.subscribe(topic, neighborhood, qos=qos, nsid=nsid)
    if granted is not None:
        _warn(client.warnings(granted))


def _subscribe_by_stage(
    client: SpatialClient, topic: str, neighborhood: Neighborhood, qos: int, stages: StagesOfNsids
) -> None:
    """Subscribe to each visible stage under an nsid of its own, and say what it selects."""
    for stage in stage_subscriptions(neighborhood):
        nsid = client.subscribe(topic, stage.neighborhood, qos=qos)
        stages.add(nsid, stage)
        sys.stderr.write(f"stage {stage.number}: {printable(stage.words)}\n")
        _warn(client.warnings(nsid))


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        sys.stderr.write(f"warning: {printable(warning)}\n")
