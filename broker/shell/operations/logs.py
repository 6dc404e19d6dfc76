"""Log lines on stderr: text for people, or JSON for machines.

They never contain a payload or a password: log calls pass only names, numbers and reasons. What a
client chose, such as its name, cannot break a line, and is cut off when it is long.
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
# Characters of one field, and of the message.
LONGEST_FIELD: Final = 256
LONGEST_MESSAGE: Final = 500
# Attributes of every log record; others were given by ``extra`` and are shown as fields.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """Formats a record as time, level, message, then the fields as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's shape
        """Return the time in UTC, to the millisecond."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without line breaks, so that client data cannot forge a log line."""
        record.message = _cut(record.message, LONGEST_MESSAGE)
        fields = "".join(f" {name}={value!r}" for name, value in fields_of(record).items())
        return _one_line(super().formatMessage(record) + fields)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time in seconds since 1970, level, logger, message, and the fields."""
        content: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage(), LONGEST_MESSAGE),
            **fields_of(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields given by ``extra``, long texts cut off."""
    return {
        name: _cut(value, LONGEST_FIELD) if isinstance(value, str) else value
        for name, value in vars(record).items()
        if name not in _STANDARD
    }


def check_log_settings(form: str, level: str) -> None:
    """Raise SettingsError for a format or level that does not exist."""
    if form not in FORMATS:
        raise SettingsError(f"broker.log_format must be {' or '.join(FORMATS)}, not {form!r}")
    if level not in LEVELS:
        raise SettingsError(f"broker.log_level must be one of {', '.join(LEVELS)}, not {level!r}")


def set_up_logs(form: str, level: str, client_lines: logging.Filter | None = None) -> None:
    """Log to stderr; amqtt and the WebSocket library log only warnings or errors.

    ``client_lines`` limits the lines that clients cause.
    """
    check_log_settings(form, level)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    if client_lines is not None:
        handler.addFilter(client_lines)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for library in ("amqtt", "websockets", "transitions", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # Its errors reach us as exceptions, and are logged once.
    logging.getLogger("amqtt.broker").setLevel(logging.CRITICAL)


def _cut(text: str, most: int) -> str:
    """Return as much of a text as ``most`` characters can show, escapes counted as written."""
    written = len(ascii(text)) - 2
    if written <= most:
        return text
    return f"{text[: most * len(text) // written]}… ({len(text)} characters)"


def _one_line(text: str) -> str:
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )
