"""Prints messages of a subscription, and changes of its neighborhood, to stdout."""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spaps.cli.stage_subscriptions import StagesOfNsids
from spaps.cli.terminal import goes_to_terminal, printable, printable_bytes, printable_json

if TYPE_CHECKING:  # at run time only when the command runs
    from spaps.client.message import Message, NeighborhoodChange


@dataclass(frozen=True, slots=True)
class MessagePrinter:
    """Prints messages to stdout, each at once, because a program may read them from a pipe."""

    as_json: bool
    with_topic: bool
    line_ends: bool
    retained: bool
    # For --explain: which stage each nsid stands for.
    stages: StagesOfNsids | None = None

    def wants(self, message: Message) -> bool:
        """Return whether this message is printed at all."""
        return self.retained or not message.retain

    def show_change(self, change: NeighborhoodChange) -> None:
        """Print a change of a neighborhood; -C does not count it."""
        if self.as_json:
            text = json.dumps({"neighborhoodChange": asdict(change)})
        else:
            text = printable(str(change))
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()

    def show(self, message: Message) -> None:
        """Print a message."""
        if self.as_json:
            fields = _fields(message)
            if self.stages is not None:
                fields["stages"] = self.stages.of(message.nsids)
            line = printable_json(fields).encode()
        else:
            line = b""
            if self.stages is not None:
                line += f"[{printable(self.stages.label(message.nsids))}] ".encode()
            if self.with_topic:
                line += f"{printable(message.topic)} ".encode()
            # A program gets the payload as it is; a terminal would interpret control characters.
            line += printable_bytes(message.payload) if goes_to_terminal() else message.payload
        sys.stdout.buffer.write(line + b"\n" if self.line_ends else line)
        sys.stdout.buffer.flush()


def _fields(message: Message) -> dict[str, Any]:
    """Return the message for JSON; a payload that is no text is in base64, under another name."""
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
