"""Prints messages of a subscription, and changes of its neighborhood, to stdout.

With ``--explain`` a neighborhood is one subscription for each visible stage, so that nsids name the
stages. The broker gives with each message the nsids of the subscriptions that match: these are the
stages that matched, by the memberships in force, after a change of the world as well
(docs/decisions/0212-explain-is-a-subscription-for-each-stage.md).
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from schemas.language.explain import stage_words
from schemas.language.neighborhood import Neighborhood
from spaps.cli.output import goes_to_terminal, printable, printable_bytes, printable_json

if TYPE_CHECKING:  # at run time only when the command runs
    from spaps.client.message import Message, NeighborhoodChange


@dataclass(frozen=True, slots=True)
class StageSubscription:
    """The neighborhood of one visible stage, and what this stage selects."""

    number: int
    words: str
    neighborhood: Neighborhood


def stage_subscriptions(neighborhood: Neighborhood) -> list[StageSubscription]:
    """Return a neighborhood for each visible stage; together they have the same members."""
    count = len(neighborhood.visible)
    return [
        StageSubscription(
            number,
            words,
            replace(neighborhood, visible=tuple(one == number for one in range(1, count + 1))),
        )
        for number, words in enumerate(stage_words(neighborhood), start=1)
        if neighborhood.visible[number - 1]
    ]


class StagesOfNsids:
    """Which stage each nsid of this client stands for."""

    def __init__(self, name: str | None) -> None:
        """``name`` is that of the neighborhood, if it has one."""
        self._name = name
        self._numbers: dict[int, int] = {}

    def add(self, nsid: int, stage: StageSubscription) -> None:
        """Remember the nsid that the broker gave to a stage."""
        self._numbers[nsid] = stage.number

    def of(self, nsids: Iterable[int]) -> list[int]:
        """Return the stages, each once; two topic filters have the same ones."""
        return sorted({self._numbers[nsid] for nsid in nsids if nsid in self._numbers})

    def label(self, nsids: Iterable[int]) -> str:
        """Return the stages in words, for people."""
        numbers = self.of(nsids)
        text = ("stage " if len(numbers) == 1 else "stages ") + ", ".join(map(str, numbers))
        return text if self._name is None else f"{self._name}: {text}"


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
