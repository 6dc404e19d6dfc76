"""Log lines on stderr: text for people, or JSON for machines, and how many clients may cause.

They never contain a payload or a password: log calls pass only names, numbers and reasons. What a
client chose, such as its name, cannot break a line, and is cut off when it is long.

A line counts for the client's address when it has the field ``from``. The broker's own lines have
none and are never left out.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Final

from broker.access.addresses import quota_host
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


# Addresses whose lines are counted; beyond this number the one that was quiet longest is removed.
MOST_ADDRESSES: Final = 10_000
MINUTE: Final = 60.0


class _Allowance:
    """So many lines a minute, all of them at once after a minute without any."""

    __slots__ = ("_at", "_left", "_most", "left_out")

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = float(most)
        self._at = 0.0
        self.left_out = 0

    def has_room(self, now: float) -> bool:
        """Return whether a line may be written now."""
        gained = max(0.0, now - self._at) * self._most / MINUTE
        self._at = max(now, self._at)
        self._left = min(float(self._most), self._left + gained)
        return self._left >= 1.0

    def take(self) -> bool:
        """Count a line; return whether it is the last one for now."""
        self._left -= 1.0
        return self._left < 1.0


class ClientLineLimit(logging.Filter):
    """A filter of the log's handler; ``most`` lines a minute in all, and of one address.

    The last line before some are left out says so (``log_limit``), and the first line after them
    says how many they were (``lines_left_out``).
    """

    def __init__(self, most: int, most_of_address: int) -> None:
        super().__init__()
        self._all = _Allowance(most)
        self._most_of_address = most_of_address
        self._of_host: OrderedDict[str, _Allowance] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        origin = getattr(record, "from", None)
        if not isinstance(origin, str):
            return True
        own = self._allowance_of(_host_of(origin))
        # Both are asked, so that both go on with the time.
        has_room = [one.has_room(record.created) for one in (own, self._all)]
        if not all(has_room):
            (self._all if has_room[0] else own).left_out += 1
            return False
        reached = {True: "address", False: ""}[own.take()]
        reached = "all clients" if self._all.take() else reached
        if reached:
            record.log_limit = reached
        if left_out := own.left_out + self._all.left_out:
            record.lines_left_out = left_out
            own.left_out = self._all.left_out = 0
        return True

    def _allowance_of(self, host: str) -> _Allowance:
        allowance = self._of_host.get(host)
        if allowance is None:
            allowance = self._of_host[host] = _Allowance(self._most_of_address)
            if len(self._of_host) > MOST_ADDRESSES:
                self._of_host.popitem(last=False)
        self._of_host.move_to_end(host)
        return allowance


def _host_of(origin: str) -> str:
    """Return the key of quotas of ``HOST:PORT``, or of a host alone."""
    if origin.startswith("["):
        host = origin[1:].partition("]")[0]
    elif origin.count(":") == 1:
        host = origin.partition(":")[0]
    else:
        host = origin
    return quota_host(host)
