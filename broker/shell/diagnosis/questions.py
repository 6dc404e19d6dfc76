"""What ``spaps trace``, ``spaps why`` and the page /why ask, read from untrusted text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker.codec.fields import FilterError, parse_filter
from schemas.errors import SpapsError
from schemas.language.limits import MAX_PEID

# Bounds of a trace.
USUAL_SECONDS: Final = 60
MOST_SECONDS: Final = 3_600
USUAL_LINES: Final = 1_000
MOST_LINES: Final = 100_000
_TRACE_NAMES: Final = ("client", "topic", "seconds", "lines", "payloads", "log")


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
    unknown = sorted(set(fields) - set(_TRACE_NAMES))
    if unknown:
        raise TraceError(f"unknown parameter {unknown[0]!a}; there are {', '.join(_TRACE_NAMES)}")
    client, topic = _trace_text(fields, "client"), _trace_text(fields, "topic")
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
        seconds=_trace_number(fields, "seconds", USUAL_SECONDS, MOST_SECONDS),
        lines=_trace_number(fields, "lines", USUAL_LINES, MOST_LINES),
        payloads=payloads,
        to_log=to_log,
    )


def _trace_text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise TraceError(f"{name} must be a text that is not empty")
    return value


def _trace_number(fields: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    value = fields.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise TraceError(f"{name} must be an integer from 1 to {most}, not {str(value)[:40]}")
    return value


# Subscriptions in one answer to the question why.
USUAL_LIMIT: Final = 100
MOST_LIMIT: Final = 1_000
MOST_TOPIC_BYTES: Final = 65_535
_WHY_NAMES: Final = ("topic", "peid", "qos", "client", "limit", "offset")


class WhyError(SpapsError):
    """A question that cannot be asked; the text says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyQuestion:
    """A message that might be published, and which subscriptions the answer is about."""

    topic: str
    peid: int | None = None
    qos: int = 0
    # Only the subscriptions of this client id.
    client: str | None = None
    limit: int = USUAL_LIMIT
    # Subscriptions that are skipped first.
    offset: int = 0


def read_question(fields: Mapping[str, Any]) -> WhyQuestion:
    """Return the question that these fields ask; numbers may be text."""
    unknown = sorted(set(fields) - set(_WHY_NAMES))
    if unknown:
        raise WhyError(f"unknown parameter {unknown[0]!a}; there are {', '.join(_WHY_NAMES)}")
    topic, client = fields.get("topic"), fields.get("client")
    if not isinstance(topic, str) or not topic:
        raise WhyError("give the topic of a message, such as topic=traffic/a")
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise WhyError("the topic is no Unicode text") from None
    if size > MOST_TOPIC_BYTES:
        raise WhyError(f"the topic has more than {MOST_TOPIC_BYTES} bytes")
    if client is not None and not isinstance(client, str):
        raise WhyError("client must be a client id")
    peid = fields.get("peid")
    return WhyQuestion(
        topic=topic,
        peid=None if peid is None else _why_number("peid", peid, 0, MAX_PEID),
        qos=_why_number("qos", fields.get("qos", 0), 0, 2),
        client=client,
        limit=_why_number("limit", fields.get("limit", USUAL_LIMIT), 1, MOST_LIMIT),
        offset=_why_number("offset", fields.get("offset", 0), 0, MAX_PEID),
    )


def fields_of(parameters: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the parameters of an address, each of which may be there once."""
    for name, values in parameters.items():
        if len(values) > 1:
            raise WhyError(f"the parameter {name!a} is given more than once")
    return {name: values[0] for name, values in parameters.items()}


def _why_number(name: str, value: Any, least: int, most: int) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise WhyError(f"{name} must be an integer from {least} to {most}, not {text[:40]!a}")
    if not least <= int(text) <= most:
        raise WhyError(f"{name} must be an integer from {least} to {most}, not {text}")
    return int(text)
