"""Logs of the broker: lines for people, or JSON lines for machines.

Nothing here ever sees a payload or a password: whoever logs passes names, numbers and reasons.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

from schemas.errors import SettingsError

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
# What every record has; the rest was given by ``extra`` and belongs to the message.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """Time, level, message, then the fields as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's shape
        """The time in UTC, to the millisecond."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line without its line breaks: what a client sends must not forge another line."""
        fields = "".join(f" {name}={value!r}" for name, value in fields_of(record).items())
        return _one_line(super().formatMessage(record) + fields)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time in seconds since 1970, level, logger, message, and the fields."""
        content: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was given by ``extra``."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def set_up_logs(form: str, level: str) -> None:
    """Log to stderr; amqtt and the WebSocket library are heard only when something is wrong."""
    if form not in FORMATS:
        raise SettingsError(f"broker.log_format must be {' or '.join(FORMATS)}, not {form!r}")
    if level not in LEVELS:
        raise SettingsError(f"broker.log_level must be one of {', '.join(LEVELS)}, not {level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for library in ("amqtt", "websockets", "transitions", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # What it says in errors comes to us as an exception, and is told once.
    logging.getLogger("amqtt.broker").setLevel(logging.CRITICAL)


def _one_line(text: str) -> str:
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )
