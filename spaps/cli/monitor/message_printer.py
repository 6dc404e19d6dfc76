"""Messages printed as they come, until there are enough or it is time."""

from __future__ import annotations

import base64
import json
import queue
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from schemas.language.neighborhood import Neighborhood
from spaps.cli.printable_text import goes_to_terminal, printable, printable_bytes, printable_json
from spaps.client.errors import ClientError
from spaps.client.message import Message, NeighborhoodChange
from spaps.client.options import ConnectionOptions
from spaps.client.spatial_client import SpatialClient

# What mosquitto_sub ends with when -W is over.
TIME_IS_OVER: Final = 27
# A wait without end would not notice Ctrl-C on every system.
LONGEST_WAIT: Final = 3600.0

Broker: TypeAlias = tuple[str, int | None, ConnectionOptions]
# Topic filter, neighborhood, QoS and nsid.
Wanted: TypeAlias = tuple[str, Neighborhood | None, int, int | None]


@dataclass(frozen=True, slots=True)
class MessagePrinter:
    """How a message looks on stdout."""

    as_json: bool
    with_topic: bool
    line_ends: bool
    retained: bool

    def wants(self, message: Message) -> bool:
        """Whether this one is printed at all."""
        return self.retained or not message.retain

    def show_change(self, change: NeighborhoodChange) -> None:
        """What changed, beside the messages; -C does not count it."""
        if self.as_json:
            text = json.dumps({"neighborhoodChange": asdict(change)})
        else:
            text = printable(str(change))
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()

    def show(self, message: Message) -> None:
        """Print it at once: somebody may be reading a pipe."""
        if self.as_json:
            line = printable_json(_fields(message)).encode()
        else:
            line = f"{printable(message.topic)} ".encode() if self.with_topic else b""
            # Another program gets the payload as it is; a terminal would obey it.
            line += printable_bytes(message.payload) if goes_to_terminal() else message.payload
        sys.stdout.buffer.write(line + b"\n" if self.line_ends else line)
        sys.stdout.buffer.flush()


def _fields(message: Message) -> dict[str, Any]:
    """A payload that is no text is written in base64, under another name."""
    fields: dict[str, Any] = {
        "topic": message.topic,
        "qos": message.qos,
        "retain": message.retain,
        "nsids": list(message.nsids),
        "peid": message.peid,
        "properties": [list(pair) for pair in message.user_properties],
    }
    try:
        fields["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(message.payload).decode()
    return fields


def print_messages(
    broker: Broker,
    wanted: Sequence[Wanted],
    printer: MessagePrinter,
    *,
    count: int | None,
    seconds: float | None,
    changes: bool = False,
) -> int:
    """Subscribe and print; the exit code."""
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
            _subscribe(client, topic, neighborhood, qos, nsid)
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
    client: SpatialClient, topic: str, neighborhood: Neighborhood | None, qos: int, nsid: int | None
) -> None:
    if neighborhood is None:
        client.subscribe_topic(topic, qos=qos)
        return
    granted = client.subscribe(topic, neighborhood, qos=qos, nsid=nsid)
    for warning in client.warnings(granted):
        sys.stderr.write(f"warning: {printable(warning)}\n")
