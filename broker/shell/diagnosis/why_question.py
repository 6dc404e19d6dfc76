"""What ``spaps why`` and the page /why ask, read from untrusted text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schemas.errors import SpapsError
from schemas.language.limits import MAX_PEID

# Subscriptions in one answer.
USUAL_LIMIT: Final = 100
MOST_LIMIT: Final = 1_000
MOST_TOPIC_BYTES: Final = 65_535
_NAMES: Final = ("topic", "peid", "qos", "client", "limit", "offset")


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
    unknown = sorted(set(fields) - set(_NAMES))
    if unknown:
        raise WhyError(f"unknown parameter {unknown[0]!a}; there are {', '.join(_NAMES)}")
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
        peid=None if peid is None else _number("peid", peid, 0, MAX_PEID),
        qos=_number("qos", fields.get("qos", 0), 0, 2),
        client=client,
        limit=_number("limit", fields.get("limit", USUAL_LIMIT), 1, MOST_LIMIT),
        offset=_number("offset", fields.get("offset", 0), 0, MAX_PEID),
    )


def fields_of(parameters: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the parameters of an address, each of which may be there once."""
    for name, values in parameters.items():
        if len(values) > 1:
            raise WhyError(f"the parameter {name!a} is given more than once")
    return {name: values[0] for name, values in parameters.items()}


def _number(name: str, value: Any, least: int, most: int) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise WhyError(f"{name} must be an integer from {least} to {most}, not {text[:40]!a}")
    if not least <= int(text) <= most:
        raise WhyError(f"{name} must be an integer from {least} to {most}, not {text}")
    return int(text)
