"""What ``spaps trace`` asks for, read from the control socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.codec.fields import FilterError, parse_filter
from schemas.errors import SpapsError

USUAL_SECONDS: Final = 60
MOST_SECONDS: Final = 3_600
USUAL_LINES: Final = 1_000
MOST_LINES: Final = 100_000
_NAMES: Final = ("client", "topic", "seconds", "lines", "payloads", "log")


class TraceError(SpapsError):
    """A trace that cannot be started; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A client id or a topic filter, and the bounds of the trace; one of the two is None."""

    client: str | None
    topic: str | None
    seconds: int
    lines: int
    payloads: bool
    to_log: bool

    @property
    def what(self) -> str:
        """What is traced, in words."""
        return f"client {self.client!r}" if self.topic is None else f"topic {self.topic!r}"


def read_trace(fields: Mapping[str, Any], topic_levels: int) -> TraceRequest:
    """Return the request that these fields make."""
    unknown = sorted(set(fields) - set(_NAMES))
    if unknown:
        raise TraceError(f"unknown parameter {unknown[0]!a}; there are {', '.join(_NAMES)}")
    client, topic = _text(fields, "client"), _text(fields, "topic")
    if (client is None) == (topic is None):
        raise TraceError("give either a client id or a topic filter")
    if topic is not None:
        try:
            parsed = parse_filter(topic, topic_levels)
        except FilterError as error:
            raise TraceError(f"topic filter {topic[:100]!a}: {error}") from None
        if parsed.share_name is not None:
            raise TraceError(f"trace the topic filter of the shared subscription: {topic[:100]!a}")
    payloads, to_log = fields.get("payloads") is True, fields.get("log") is True
    if payloads and to_log:
        raise TraceError("payloads never go into the log: print them here, without --log")
    return TraceRequest(
        client=client,
        topic=topic,
        seconds=_number(fields, "seconds", USUAL_SECONDS, MOST_SECONDS),
        lines=_number(fields, "lines", USUAL_LINES, MOST_LINES),
        payloads=payloads,
        to_log=to_log,
    )


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise TraceError(f"{name} must be a text that is not empty")
    return value


def _number(fields: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    value = fields.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise TraceError(f"{name} must be an integer from 1 to {most}, not {str(value)[:40]}")
    return value
